"""Compiled Triton kernels, from the arguments that Inductor's launcher records: each tensor argument counted once.

Which arguments are inputs, outputs or both is not recorded, nor which part of each is touched, so this is an estimate:
an argument that is read and written in place moves twice what is counted (a fused gelu and mul that reuses its input's
buffer moves 151 MB, of which 101 MB are counted), one that is used in part moves less. FLOP are not known.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, total

NOTE = "estimate: each tensor argument once; an argument updated in place moves twice that"


def _fused(call: OpCall) -> Cost | None:
    tensors = call.every_tensor()
    return Cost(None, None, None, NOTE, touched=total(tensors)) if tensors else None


KIND = Kind(
    prices={"triton_*": _fused},
    examples=(
        (
            OpCall("triton_poi_fused__unsafe_view_gelu_mul_0", [[64, 128, 3072], [8192, 3072], []],
                   ["c10::BFloat16", "c10::BFloat16", "Scalar"], concrete=["", "", "25165824"]),
            Cost(None, None, None, NOTE, touched=100_663_296),
        ),
    ),
)
