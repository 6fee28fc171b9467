"""Worked examples of `masked_fill`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import COPY, Example, Sketch, kernel

FILL = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "(anonymous namespace)::masked_fill_kernel(at::TensorIterator&, c10::Scalar const&)>()"
)


def _sketch(path: str, *names: str) -> dict[str, Any]:
    work = [kernel(name, 100) for name in names]
    return Sketch().step().op(path, *work).document()


EXAMPLES = (
    Example(
        "a copy and a fill",
        lambda: _sketch("aten::masked_fill > aten::masked_fill_", COPY, FILL),
        {"calls": 1, "ns": 200000, "mask": None},
    ),
    Example("in place", lambda: _sketch("aten::masked_fill_", FILL), None),
    Example("one kernel does both", lambda: _sketch("aten::masked_fill", FILL), None),
)
