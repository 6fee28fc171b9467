"""Keys and values copied once per query head (`repeat_kv`), for attention without grouped queries.

The copy reads five dimensions [batch, key heads, repeats, tokens, head size], the third of which
has stride 0: it was expanded.
"""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named


def _test(work: GpuWork) -> bool:
    call = work.call
    source = call.tensor(1) if call and call.name == "aten::copy_" else None
    if source is None or source.strides is None or len(source.dims) != 5:
        return False
    return source.strides[2] == 0 and source.dims[2] > 1


GROUP = WorkGroup("repeat_kv", 55, named("repeat_kv", _test))
