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


def _sketch(name: str, *ops: str, kind: str = "AdamW") -> dict[str, object]:
    sketch = Sketch().step().region(f"Optimizer.step#{kind}.step")
    for op in ops:
        sketch.op(op, *[kernel(name, 20)] * (6 // len(ops)))
    return sketch.document()


def _slow() -> dict[str, object]:
    """Two foreach calls that fall back to an op for each of three tensors."""
    sketch = Sketch().step().region("Optimizer.step#SGD.step")
    for name in ("mul_", "add_"):
        begun = sketch.pause(1).now
        for _ in range(3):
            sketch.op(f"aten::{name}", kernel(FOREACH, 20))
        sketch._add("cpu_op", f"aten::_foreach_{name}", begun - 0.1, sketch.now - begun + 0.2)
    return sketch.document()


EXAMPLES = (
    Example(
        "foreach AdamW",
        lambda: _sketch(FOREACH, "aten::_foreach_mul_", "aten::_foreach_add_"),
        {
            "optimizer": "AdamW",
            "kernels": 6,
            "ns": 120000,
            "passes": {"aten::_foreach_add_": 60000, "aten::_foreach_mul_": 60000},
        },
    ),
    Example(
        "SGD without momentum: one call in six kernels",
        lambda: _sketch(FOREACH, "aten::_foreach_add_", kind="SGD"),
        None,
    ),
    Example(
        "one call for each of six groups of parameters",
        lambda: _sketch(FOREACH, *["aten::_foreach_add_"] * 6, kind="SGD"),
        None,
    ),
    Example(
        "two foreach calls around an op for each tensor",
        _slow,
        {"kernels": 6, "passes": {"aten::_foreach_add_": 60000, "aten::_foreach_mul_": 60000}},
    ),
    Example("fused AdamW", lambda: _sketch(ADAM, "aten::_fused_adamw_"), None),
)
