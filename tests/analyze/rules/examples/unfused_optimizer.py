"""Worked examples of `unfused_optimizer`."""

from __future__ import annotations

from analyze.rules.sketch import Example, Sketch, kernel

FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::"
    "TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, "
    "0>, "
    "std::multiplies<float>, float>(int)"
)


ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous "
    "namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::ADAM_MODE)1, false>, float const*>(int)"
)


def _sketch(name: str, op: str) -> dict[str, object]:
    sketch = Sketch().step().region("Optimizer.step#AdamW.step")
    for _ in range(6):
        sketch.op(op, kernel(name, 20))
    return sketch.document()


EXAMPLES = (
    Example(
        "foreach AdamW",
        lambda: _sketch(FOREACH, "aten::_foreach_mul_"),
        {
            "optimizer": "AdamW",
            "kernels": 6,
            "ns": 120000,
            "passes": {"aten::_foreach_mul_": 120000},
        },
    ),
    Example("fused AdamW", lambda: _sketch(ADAM, "aten::_fused_adamw_"), None),
)
