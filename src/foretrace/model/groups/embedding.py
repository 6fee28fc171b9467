"""The lookup of embeddings, and their gradient."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, word_test, words

_KERNEL = word_test(r"(?<!rotary_)(?<!rotary)embedding")
_TABLES = word_test(r"SplitLookupFunction|split_embedding")  # FBGEMM
_OPS = words("embedding embedding_backward embedding_dense_backward embedding_bag")


def _test(work: GpuWork) -> object:
    if work.origins:
        return work.origins & _OPS and not work.reduces
    return work.ops & _OPS or _KERNEL(work.words) or any(_TABLES(name) for name in work.path)


GROUP = WorkGroup("embedding", 40, named("embedding", _test))
