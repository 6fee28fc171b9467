"""Worked examples of `kept_gradients`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import ADD, Example, Sketch, kernel

FILL = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<c10::BFloat16>, "
    "std::array<char*, 1ul> >(int)"
)


def _sketch(add: str, zero: bool = True) -> dict[str, Any]:
    sketch = Sketch().step().op(f"torch::autograd::AccumulateGrad > {add}", kernel(ADD, 6))
    if zero:
        sketch.region("Optimizer.zero_grad#AdamW.zero_grad")
        sketch.op("aten::_foreach_zero_", kernel(FILL, 9))
    return sketch.document()


EXAMPLES = (
    Example(
        "zeroed and added to",
        lambda: _sketch("aten::add_"),
        {"adds": 1, "fills": 1, "add_ns": 6000, "fill_ns": 9000},
    ),
    Example("several backward passes", lambda: _sketch("aten::add_", zero=False), None),
    Example("a new gradient is copied", lambda: _sketch("aten::copy_"), None),
)
