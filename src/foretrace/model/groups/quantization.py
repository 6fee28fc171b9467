"""Quantization to 8 or 4 bits and back, by a kernel of its own."""

from __future__ import annotations

from foretrace.model.groups._group import MATMULS, GpuWork, WorkGroup, named, word_test

_QUANT = word_test(r"quant")


def _test(work: GpuWork) -> object:
    texts = (work.words, *work.ops, *work.origins)
    return work.role not in MATMULS and any(_QUANT(text.lower()) for text in texts)


GROUP = WorkGroup("quantization", 60, named("quantization", _test))
