"""Pooling over windows."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, word_test

_POOL = word_test(r"(max|avg|average)_?pool")


def _test(work: GpuWork) -> object:
    return any(_POOL(text) for text in (*work.ops, *work.origins, work.words))


GROUP = WorkGroup("pooling", 58, named("pooling", _test))
