"""Convolutions, and what their libraries launch around them to change the layout."""

from __future__ import annotations

from foretrace.model.groups._group import GpuWork, WorkGroup, plain, word_test

_OPS = word_test(r"convolution|conv[123]d|conv_depthwise")


def _name(work: GpuWork) -> str:
    if work.role != "conv" and not any(_OPS(op) for op in work.ops):
        return ""
    if work.path and plain(work.path[-1]) in ("add", "sum"):
        return ""  # the bias and its gradient
    return "convolution backward" if work.backward else "convolution"


GROUP = WorkGroup("convolution", 57, _name, with_backward=False)
