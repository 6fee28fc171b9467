"""What a source hands to the model: tables of events, and what the document said about itself.

    events    one row per record, in time order: ts_ns, dur_ns, kind_id, name_id, track,
              correlation, external_id, namespace.
              Times that cannot be used are null: such an event counts, and is never summed.
              Numbers, because a row of text costs more than all the rest: `kind_id` counts into the
              reader's kinds, `name_id` into `names`
    names     name; its place is its number, in sorted order
    tracks    one row per (pid, tid): id, pid, tid, process, thread, namespace
    shapes    event, dims, types, strides, concrete (JSON text)
    gpu       event, device, stream, grid, block, registers, shared_memory, blocks_per_sm,
              warps_per_sm, occupancy,
              graph_id, graph_node, bytes
    autograd  event, sequence, forward_thread          comms   event, collective, dtype,
                                                       in_elements, ...
    syncs     event, sync_kind, stream, wait_stream     frames  event, python_id, python_parent,
                                                        python_module
    memory    event, device_type, device_id, address, bytes, total_allocated, total_reserved
    triton    event, backend, kernel_hash, kwargs, num_warps, num_stages        stacks  event,
              call_stack, module_path

`event` is the place of a row in `events`, so a side table joins by plain indexing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from foretrace.schema.ledger import Ledger

_TABLES = """
    events names tracks shapes gpu autograd comms syncs frames memory triton stacks
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
NONE = -(1 << 63)  # stands for null where a column is a NumPy array


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one trace. `base_ns` is what absolute times start from; None when the trace
    does not say.
    """

    source: str
    frames: dict[str, pl.DataFrame]
    header: dict[str, Any]
    ledger: Ledger
    base_ns: int | None
    resolution_ns: int = 1
    merged: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.frames[name]
