"""Collectives: the message read once and the result written once on this GPU, at the least.

A ring passes every chunk on as it arrives, so the memory traffic of a real algorithm is a small
multiple, and what crosses the wire depends on the group size and the algorithm. Message sizes come
from the collective's own record.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, moved
from foretrace.model.costs._types import SIZES

NOTE = "at least: the message in and out once; the algorithm moves more"

_TYPES = {
    "BFloat16": "c10::BFloat16", "Half": "c10::Half", "Float": "float", "Double": "double", "Int": "int",
    "Long": "long int", "Byte": "unsigned char", "Char": "signed char", "Bool": "bool", "Short": "short int",
    "Float8_e4m3fn": "c10::Float8_e4m3fn", "Float8_e5m2": "c10::Float8_e5m2",
}  # fmt: skip


def _recorded(call: OpCall) -> Cost | None:
    """record_param_comms, with `In msg nelems`, `Out msg nelems` and `dtype` among its arguments."""
    size = SIZES.get(_TYPES.get(str(call.kwargs.get("dtype")), ""))
    read, written = call.kwargs.get("In msg nelems"), call.kwargs.get("Out msg nelems")
    if size is None or not isinstance(read, int) or not isinstance(written, int):
        return None
    return Cost(None, read * size, written * size, NOTE)


def _in_place(call: OpCall) -> Cost | None:
    """symm_mem::multimem_all_reduce_ and the like (self, ...)."""
    message = call.tensor(0)
    return None if message is None else moved([message], [message], note=NOTE)


KIND = Kind(
    prices={
        "record_param_comms": _recorded,
        "symm_mem::multimem_all_reduce_": _in_place,
        "symm_mem::two_shot_all_reduce_": _in_place,
    },
    examples=(
        (
            OpCall(
                "record_param_comms",
                [[1, 25136]],
                ["c10::BFloat16"],
                kwargs={"dtype": "BFloat16", "In msg nelems": 25_136, "Out msg nelems": 201_088},
            ),
            Cost(None, 50_272, 402_176, NOTE),
        ),
    ),
)
