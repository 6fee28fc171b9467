"""Dropout and its mask."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, words

_OPS = words("dropout native_dropout native_dropout_backward fused_dropout bernoulli")


def _test(work: GpuWork) -> object:
    return work.ops & _OPS or work.origins & _OPS or "dropout" in work.words


GROUP = WorkGroup("dropout", 56, named("dropout", _test))
