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
    parts = call.tensors(0) if call.name == "aten::cat" else None
    if parts is None or len(parts) != 2 or call.integer(1) not in (-2, 2):
        return False
    old, new = (part.dims for part in parts)
    return len(new) == 4 and (old == (0,) or _same_but_tokens(old, new))


def _writes(call: OpCall) -> bool:
    """Fewer tokens into a tensor of four dimensions, at indices."""
    if call.name != "aten::index_copy_":
        return False
    cache, new = call.tensor(0), call.tensor(3)
    return cache is not None and new is not None and _same_but_tokens(cache.dims, new.dims)


def _same_but_tokens(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    return len(one) == len(two) == 4 and (*one[:2], one[3]) == (*two[:2], two[3])


GROUP = WorkGroup("KV cache", 28, named("KV cache", _test))
