"""Worked examples of `activation_epilogue`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import GELU, GEMM, Example, Sketch, kernel

RELU = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous namespace)::"
    "launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar, c10::Scalar, "
    "at::native::detail::ClampLimits)::{lambda()#1}, std::array<char*, 2ul> >(int)"
)


def _sketch(op: str, name: str, rows: int = 8192, least: str = "0") -> dict[str, Any]:
    return (
        Sketch()
        .step()
        .op(
            "aten::linear > aten::addmm",
            kernel(GEMM, 100),
            dims=[[4096], [8192, 1024], [1024, 4096], [], []],
        )
        .op(op, kernel(name, 30), dims=[[rows, 4096], []], concrete=["", least])
        .document()
    )


EXAMPLES = (
    Example(
        "ReLU after a Linear",
        lambda: _sketch("aten::relu > aten::clamp_min", RELU),
        {"activations": 1, "ns": 30000},
    ),
    Example("tanh GELU after a Linear", lambda: _sketch("aten::gelu", GELU), {"ns": 30000}),
    Example(
        "GELU by the error function",
        lambda: _sketch("aten::gelu", GELU.replace("{lambda()#1}", "{lambda()#2}")),
        None,
    ),
    Example("a clamp at one half", lambda: _sketch("aten::clamp_min", RELU, least="0.5"), None),
    Example("of another size", lambda: _sketch("aten::relu", RELU, rows=64), None),
    Example(
        "a training step",
        lambda: (
            Sketch()
            .step()
            .op("aten::addmm", kernel(GEMM, 100), dims=[[64], [64, 64], [64, 64], [], []])
            .op("aten::relu", kernel(RELU, 30), dims=[[64, 64]])
            .op("autograd::engine::evaluate_function: ReluBackward0")
            .document()
        ),
        None,
    ),
)
