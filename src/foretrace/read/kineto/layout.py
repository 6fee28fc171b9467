"""Which record is of which kind, and which arguments each kind has."""

from __future__ import annotations

import re

from foretrace.schema.tables import KIND

# kind <- the categories that writers of every era use for it, matched without case
_WRITTEN = """
    cpu_op operator cpu_op
    user_annotation user user_annotation
    gpu_user_annotation gpu_user_annotation
    kernel kernel
    gpu_memcpy memcpy gpu_memcpy
    gpu_memset memset gpu_memset
    cuda_runtime runtime cuda_runtime xpu_runtime privateuse1_runtime mtia_runtime glow_runtime
    cuda_driver cuda_driver xpu_driver privateuse1_driver
    python_function python_function
    overhead overhead
    cuda_sync cuda_sync
    cuda_event cuda_event
    span trace
"""
_CATEGORIES = {"": "cpu_op"} | {
    category: kind
    for kind, *categories in map(str.split, _WRITTEN.strip().splitlines())
    for category in categories
}
_OTHERS = """
    ac2g fwdbwd cpu_instant_event external_correlation collective_comm mtia_ccp_events mtia_insight
    mtia_counters hardware_counters xpu_scope_profiler hpu_op cuda_profiler_range xpu_sync
    critical_path async async_gpu async_cpu_to_gpu cpu_to_cuda launch
"""
KNOWN_CATEGORIES = frozenset(_CATEGORIES) | frozenset(_OTHERS.split())
_PHASES = {"M": "metadata", "C": "counter", "B": "begin", "E": "end"}
_PHASES |= dict.fromkeys("iI", "instant") | dict.fromkeys("stf", "flow")
KNOWN_PHASES = frozenset(_PHASES) | {"X"}

# Where writers that state no category put device rows: JAX, torch_npu, the first autograd profiler
_ON_DEVICE = re.compile(r"/device:|ascend hardware|overlap analysis|cuda functions|[gn]pu\b", re.I)
_RUNS_KERNELS = re.compile(r"/device:gpu.*\nstream|gpu\b.*\nstream|cuda functions\n", re.I)

# table: columns, each with its type: integer `q`, float `d`, interned text `i`, list as interned
# text `l`, number that may be written as text `w`; `=` names another attribute of `Args`
_TABLES = """
    shapes    signature:i
    autograd  sequence:q forward_thread:q
    gpu       device:w stream:w grid:l block:l registers:q shared_memory:q blocks_per_sm:d
              warps_per_sm:d occupancy:d graph_id:q graph_node:q bytes:w
    comms     collective:i dtype:i in_elements:q out_elements:q group_size:q group_name:i
              seq:q comms_id:i source_rank:q target_rank:q
    syncs     sync_kind:i stream:w wait_stream:q wait_record:q
    frames    python_id:q python_parent:q python_module:q
    memory    device_type:q device_id:q address:q bytes:q=alloc_bytes total_allocated:q
              total_reserved:q
    triton    backend:i=kernel_backend kernel_hash:i kwargs:i=kernel_kwargs num_warps:i num_stages:i
    stacks    call_stack:i module_path:i
    launches  kernel:i grid:l
    labels    name:i labels:i
"""


def _parsed() -> dict[str, tuple[tuple[str, str, str], ...]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for word in _TABLES.split():
        if ":" not in word:
            columns = found[word] = []
            continue
        name, _, rest = word.partition(":")
        code, _, attribute = rest.partition("=")
        columns.append((name, code, attribute or name))
    return {table: tuple(columns) for table, columns in found.items()}


# side table -> (column, type, attribute of `Args`)
SIDES = _parsed()
# the side table that holds the arguments of a kind
KIND_SIDES = {
    **dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset"), "gpu"),
    "cuda_sync": "syncs",
    "python_function": "frames",
    "memory": "memory",
    "metadata": "labels",
}


def kind_of(phase: str, category: str) -> int:
    """The kind of an event, as a number into `KINDS`."""
    if category == "memory":
        return KIND["memory"]
    if phase == "X":
        return KIND[_CATEGORIES.get(category.lower(), "other")]
    return KIND[_PHASES.get(phase, "unknown")]


def kind_without_category(processes: tuple[str, ...], thread: str) -> int:
    """What ranges without a category are, by what their process and thread are called."""
    if any(_RUNS_KERNELS.match(f"{process[:99]}\n{thread[:99]}") for process in processes):
        return KIND["kernel"]
    if any(map(_ON_DEVICE.match, processes)):
        return KIND["gpu_user_annotation"]  # derived rows: groups of kernels, waits, free time
    return KIND["other" if "CANN" in processes else "cpu_op"]
