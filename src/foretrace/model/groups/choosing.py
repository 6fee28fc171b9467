"""The choice of the next token or of the best entries: argmax, top-k, sort, sampling."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, named, word_test, words

_OPS = words("argmax argmin topk sort argsort multinomial exponential searchsorted cumsum")
_KERNEL = word_test(r"sampling|top_?k|top_?p|argmax")


def _test(work: GpuWork) -> object:
    if work.origins:
        return work.origins & words("argmax argmin topk sort multinomial")
    chosen = work.ops & _OPS - words("cumsum") or work.role == "sort"
    return chosen or _KERNEL(work.words)


GROUP = WorkGroup("argmax, top-k, sort", 61, named("argmax, top-k, sort", _test))
