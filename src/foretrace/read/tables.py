"""What a source gives to the model: tables of events, and what the document says about itself.

    events      one row per record, in time order: ts_ns, dur_ns, kind_id, name_id, track,
                correlation, external_id, namespace. A time that cannot be used is null: the event
                counts, and its time is never summed. `kind_id` is a place in `KINDS`, `name_id` one
                in `names`: a row of text would cost more than all the rest
    names       name; its place is its number, in sorted order
    shapes      event, signature: a place in `signatures`

`docs/python.md` lists the columns of the others. `event` is the place of a row in `events`, so a
side table joins by plain indexing. A column is null where the trace has no such record.

A signature has one entry per argument. In `dims` and `strides` a tensor is a list of numbers, a
TensorList is null, and anything else (and a tensor without dimensions) is an empty list. The sizes
of a TensorList's tensors are in `list_dims` and `list_strides`, which are null for every other
argument. What does not fit (text where a number belongs) is null in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    import polars as pl

    from foretrace.read.ledger import Ledger

_TABLES = """
    events names tracks shapes signatures gpu autograd comms syncs frames memory triton stacks
    launches
"""
TABLES = tuple(_TABLES.split())
# What an event is; the categories of every era of the format are folded into these.
_KINDS = """
    other cpu_op user_annotation gpu_user_annotation kernel gpu_memcpy gpu_memset cuda_runtime
    cuda_driver python_function overhead cuda_sync cuda_event instant memory flow metadata span
    counter begin end unknown
"""
KINDS = tuple(_KINDS.split())
KIND = {name: code for code, name in enumerate(KINDS)}
WORK_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
NAMELESS = ("(no name)", "(empty)")  # what events without a name are called
NONE = -(1 << 63)  # stands for null where a column is a NumPy array


class Tables(Struct, frozen=True):
    """The tables of one trace; absolute times start from `base_ns`, None where it is not stated.

    `gpu_lag_ns` is how much later the GPU's clock is than the host's, as launches and waits tell.
    `last` is the event that a cut file ends with; -1 where no event is missing.
    """

    source: str
    frames: dict[str, pl.DataFrame]
    header: dict[str, Any]
    ledger: Ledger
    base_ns: int | None
    resolution_ns: int = 1
    merged: tuple[str, ...] = field(default=())
    gpu_lag_ns: int = 0
    last: int = -1

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.frames[name]
