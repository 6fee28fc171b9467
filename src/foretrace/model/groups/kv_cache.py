"""Keys and values written to their cache: a copy to an index, a kernel of a server, or a cat.

The cat joins [batch, heads, tokens, head size] along the tokens.
"""

from __future__ import annotations

from foretrace.model.costs import OpCall
from foretrace.model.groups._group import GpuWork, WorkGroup, named, word_test

_KERNEL = word_test(r"reshape_and_cache|kv_?cache|store_cache|set_kv_buffer|append_kv")


def _test(work: GpuWork) -> object:
    if work.role == "attention":
        return False  # it reads the cache
    if _KERNEL(work.words) or any(_KERNEL(op) for op in work.ops):
        return True
    return work.call is not None and (_joins(work.call) or _writes(work.call))


def _joins(call: OpCall) -> bool:
    """Two tensors of four dimensions that differ in the third alone; a new cache is empty."""
    sizes = call.dims[0] if call.name == "aten::cat" and call.dims else []
    if len(sizes) != 2 or not all(isinstance(size, list) for size in sizes) or len(sizes[1]) != 4:
        return False
    old, new = sizes
    along = len(call.concrete) > 1 and call.concrete[1] in ("-2", "2")
    return along and (old == [0] or [*old[:2], *old[3:]] == [*new[:2], *new[3:]])


def _writes(call: OpCall) -> bool:
    """Fewer tokens into a tensor of four dimensions, at indices."""
    if call.name != "aten::index_copy_" or len(call.dims) < 4:
        return False
    cache, new = call.dims[0], call.dims[3]
    return len(cache) == len(new) == 4 and [*cache[:2], cache[3]] == [*new[:2], new[3]]


GROUP = WorkGroup("KV cache", 28, named("KV cache", _test))
