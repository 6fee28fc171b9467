"""Compiled Triton kernels, from the arguments that Inductor's launcher records: each tensor
argument counted once.

Which arguments are inputs, outputs or both is not recorded, nor which part of each is touched, so
this is an estimate: an argument that is read and written in place moves twice what is counted (a
fused gelu and mul that reuses its input's buffer moves 151 MB, of which 101 MB are counted), one
that is used in part moves less. FLOP are not known. A kernel that picks rows or elements by an
index (an embedding, the loss of the right class) reaches no more of a table than one element for
each point of its grid, whose sizes follow the tensors among the arguments.
"""

from __future__ import annotations

import math
import re

from foretrace.model.costs._call import Cost, Kind, OpCall, Tensor, total

NOTE = "estimate: each tensor argument once; an argument updated in place moves twice that"
PICKING = re.compile(r"triton_(?:poi|per|red)_fused_.*(?:embedding|gather|index|nll_loss)")


def _fused(call: OpCall) -> Cost | None:
    points = _points(call) if PICKING.match(call.name) else None
    tensors = call.every_tensor()
    if points is not None and points > 0:
        tensors = tuple(Tensor((min(tensor.stored, points),), tensor.type) for tensor in tensors)
    return Cost(None, None, None, NOTE, touched=total(tensors)) if tensors else None


def _points(call: OpCall) -> int | None:
    """How many points the kernel computes: the numbers among its arguments multiplied (`xnumel`,
    `r0_numel`).
    """
    sizes = [call.integer(place) for place, kind in enumerate(call.types) if kind == "Scalar"]
    return (
        math.prod(size for size in sizes if size is not None)
        if sizes and None not in sizes
        else None
    )


KIND = Kind(
    prices={"triton_*": _fused},
    examples=(
        (
            OpCall(
                "triton_poi_fused__unsafe_view_gelu_mul_0",
                [[64, 128, 3072], [8192, 3072], []],
                ["c10::BFloat16", "c10::BFloat16", "Scalar"],
                concrete=["", "", "25165824"],
            ),
            Cost(None, None, None, NOTE, touched=100_663_296),
        ),
        (
            OpCall(
                "triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt_0",
                [[4, 512], [32000, 768], [768], [4, 512, 768], [], []],
                ["long int", *["c10::BFloat16"] * 3, "Scalar", "Scalar"],
                concrete=["", "", "", "", "2048", "768"],
            ),
            Cost(None, None, None, NOTE, touched=16_384 + 2 * 3_145_728 + 1536),
        ),
    ),
)
