"""Matmuls of the backward pass, and the gradient of their bias."""

from __future__ import annotations

from foretrace.model.groups._group import MATMULS, GpuWork, WorkGroup, word_test

_LINEAR = word_test(r"(Addmm|Linear|Convolution)Backward\d*$|convolution_backward")


def _name(work: GpuWork) -> str:
    if not work.backward:
        return ""
    if work.role in MATMULS:
        return "GEMM backward"
    summed = work.path[-1] == "aten::sum" and any(_LINEAR(name) for name in work.path)
    return "bias gradient" if summed else ""


GROUP = WorkGroup("GEMM backward", 63, _name, with_backward=False)
