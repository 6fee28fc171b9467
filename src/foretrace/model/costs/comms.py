"""Collectives: at least, this GPU reads the message once and writes the result once.

A ring passes every chunk on as it arrives, so the memory traffic of a real algorithm is a small
multiple. What crosses the wire depends on the group size and the algorithm. Message sizes come from
the collective's own record.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall
from foretrace.model.costs._cost import Cost, CostKind, at_least, table, takes
from foretrace.schema.traffic import Certainty

NOTE = "the message in and out once; the algorithm moves more"
SENT = "the message in once; its result is not recorded, and the algorithm moves more"

# how the profiler writes the type of a message: our name for it, and the bytes of an element
ELEMENT_TYPES = {
    "BFloat16": ("c10::BFloat16", 2), "Half": ("c10::Half", 2), "Float": ("float", 4),
    "Double": ("double", 8), "Int": ("int", 4), "Long": ("long int", 8), "Short": ("short int", 2),
    "Byte": ("unsigned char", 1), "Char": ("signed char", 1), "Bool": ("bool", 1),
    "Float8_e4m3fn": ("c10::Float8_e4m3fn", 1), "Float8_e5m2": ("c10::Float8_e5m2", 1),
    "Float8_e4m3fnuz": ("c10::Float8_e4m3fnuz", 1), "Float8_e5m2fnuz": ("c10::Float8_e5m2fnuz", 1),
}  # fmt: skip


def _recorded(call: OpCall) -> Cost | None:
    """record_param_comms, with `In msg nelems`, `Out msg nelems` and `dtype`.

    Old traces have none of the three, but the tensor that goes in.
    """
    _, size = ELEMENT_TYPES.get(str(call.kwargs.get("dtype")), ("", None))
    read, written = call.kwargs.get("In msg nelems"), call.kwargs.get("Out msg nelems")
    if size is not None and isinstance(read, int) and isinstance(written, int):
        return Cost(None, read * size, written * size, NOTE, Certainty.AT_LEAST)
    message = call.tensor(0)
    return at_least([message], None, SENT) if message else None


_BASES = "_allgather_base_ _reduce_scatter_base_ alltoall_base_"
_IN_PLACE = "multimem_all_reduce_ two_shot_all_reduce_"

COMMS = CostKind(
    {
        "record_param_comms": _recorded,
        **table(_BASES, takes("out in", NOTE, least=True), "c10d::"),
        "_C_custom_ar::all_reduce": takes("- in out", NOTE, least=True),
        **table(_IN_PLACE, takes("both", NOTE, least=True), "symm_mem::"),
    }
)

KINDS = (COMMS,)
