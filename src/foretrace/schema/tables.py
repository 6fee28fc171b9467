"""What a source gives to the model: tables of events, and what the document says about itself.

    events      one row per record, in time order: ts_ns, dur_ns, kind_id, name_id, track,
                correlation, external_id, namespace. A time that cannot be used is null: the event
                counts, and its time is never summed. `kind_id` is a place in `KINDS`, `name_id` one
                in `names`: a row of text would cost more than all the rest
    names       name; its place is its number, in sorted order
    tracks      one row per (pid, tid): id, pid, tid, process, thread, labels
    shapes      event, signature: a place in `signatures`
    signatures  one row per distinct set of recorded arguments: dims, types, strides, concrete,
                list_dims, list_strides
    gpu         event, device, stream, grid, block (lists of numbers), registers, shared_memory,
                blocks_per_sm, warps_per_sm, occupancy, graph_id, graph_node, bytes
    autograd    event, sequence, forward_thread
    comms       event, collective, dtype, in_elements, out_elements, group_size, group_name,
                seq, comms_id, source_rank, target_rank (of a receive and of a send)
    syncs       event, sync_kind, stream, wait_stream, wait_record
    frames      event, python_id, python_parent, python_module
    memory      event, device_type, device_id, address, bytes, total_allocated, total_reserved
    triton      event, backend, kernel_hash, kwargs, num_warps, num_stages
    stacks      event, call_stack, module_path
    launches    event, kernel, grid: name and grid of what a call launches, where the profiler wrote
                them (ROCm)

`event` is the place of a row in `events`, so a side table joins by plain indexing.

A signature has one entry per argument. In `dims` and `strides` a tensor is a list of numbers, a
TensorList is null, and anything else (and a tensor without dimensions) is an empty list. The sizes
of a TensorList's tensors are in `list_dims` and `list_strides`, which are null for every other
argument. What does not fit (text where a number belongs) is null in both. A column is null where
the trace has no such record. `types` and `concrete` are lists of text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    import polars as pl

    from foretrace.schema.ledger import Ledger

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
    """

    source: str
    frames: dict[str, pl.DataFrame]
    header: dict[str, Any]
    ledger: Ledger
    base_ns: int | None
    resolution_ns: int = 1
    merged: tuple[str, ...] = field(default=())
    gpu_lag_ns: int = 0

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.frames[name]
