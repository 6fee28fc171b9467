"""The lookup of embeddings, and their gradient."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, words

_OPS = words("embedding embedding_backward embedding_dense_backward embedding_bag")


def _test(work: GpuWork) -> object:
    if work.origins:
        return work.origins & _OPS and not work.reduces
    return work.ops & _OPS or "embedding" in work.words


GROUP = WorkGroup("embedding", 40, named("embedding", _test))
