"""Collectives: at least, this GPU reads the message once and writes the result once.

A ring passes every chunk on as it arrives, so the memory traffic of a real algorithm is a small
multiple. What crosses the wire depends on the group size and the algorithm. Message sizes come from
the collective's own record.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall
from foretrace.model.costs._cost import Cost, CostKind, at_least, table
from foretrace.model.costs._types import SIZES
from foretrace.schema.cost import Certainty

NOTE = "the message in and out once; the algorithm moves more"

_TYPES = {
    "BFloat16": "c10::BFloat16", "Half": "c10::Half", "Float": "float", "Double": "double",
    "Int": "int", "Long": "long int", "Byte": "unsigned char", "Char": "signed char",
    "Bool": "bool", "Short": "short int", "Float8_e4m3fn": "c10::Float8_e4m3fn",
    "Float8_e5m2": "c10::Float8_e5m2",
}  # fmt: skip


def _recorded(call: OpCall) -> Cost | None:
    """record_param_comms, with `In msg nelems`, `Out msg nelems` and `dtype`."""
    size = SIZES.get(_TYPES.get(str(call.kwargs.get("dtype")), ""))
    read, written = call.kwargs.get("In msg nelems"), call.kwargs.get("Out msg nelems")
    if size is None or not isinstance(read, int) or not isinstance(written, int):
        return None
    return Cost(None, read * size, written * size, NOTE, Certainty.AT_LEAST)


def _in_place(call: OpCall) -> Cost:
    """symm_mem::multimem_all_reduce_ and the like (self, ...)."""
    message = [call.need(0)]
    return at_least(message, message, NOTE)


KIND = CostKind(
    {
        "record_param_comms": _recorded,
        **table("multimem_all_reduce_ two_shot_all_reduce_", _in_place, "symm_mem::"),
    }
)
