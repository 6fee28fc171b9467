"""What is measured: one row of a benchmark is a subject at a size.

Every subject is a function of tensors, with random inputs, its result in float64, and the work it
cannot avoid: bytes moved (each input read once, each output written once) and floating-point
operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from foretrace.kernels.activations import gated_reference
from foretrace.kernels.mlp import mlp_reference

Size = tuple[int, int, int]
Tensors = tuple[Tensor, ...]

# The sizes (tokens, model width, hidden width) this project is judged at, and twelve more it must
# not lose at.
MAIN: tuple[Size, ...] = (
    (8192, 768, 3072),
    (8192, 2048, 8192),
    (8192, 4096, 14336),
    (16, 4096, 14336),
)
FURTHER: tuple[Size, ...] = (
    (1, 512, 2048),
    (1, 4096, 11008),
    (7, 1000, 3000),
    (64, 768, 3072),
    (128, 2048, 5632),
    (257, 1152, 6912),
    (512, 4096, 14336),
    (1000, 1001, 3003),
    (1024, 8192, 28672),
    (4096, 5120, 13824),
    (16384, 1024, 4096),
    (32768, 512, 1536),
)
GLU_SIZES: tuple[tuple[int, int], ...] = (
    (8192, 3072),
    (8192, 8192),
    (16384, 14336),
    (1000, 3000),
    (64, 3072),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """`inputs` are made fresh; `plain` computes the result from them in any dtype, as a tuple."""

    name: str
    m: int
    d: int
    h: int
    inputs: Callable[[], Tensors]
    plain: Callable[..., Tensors]
    flops: int
    elements: int

    def truth(self, inputs: Tensors) -> Tensors:
        """The result in float64."""
        with torch.enable_grad():
            return tuple(
                out.detach() for out in self.plain(*(tensor.detach().double() for tensor in inputs))
            )


def dtype_named(name: str) -> torch.dtype:
    """`bfloat16` -> torch.bfloat16."""
    found: torch.dtype = getattr(torch, name)
    return found


def parse_size(text: str) -> tuple[int, ...]:
    """`8192x768x3072` -> (8192, 768, 3072)."""
    try:
        size = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        size = ()
    if len(size) not in (2, 3) or min(size) < 1:
        raise ValueError(f"{text!r} is not a size such as 8192x3072 or 8192x768x3072")
    return size


def glu_forward(m: int, h: int, dtype: torch.dtype) -> Subject:
    """`gelu(gate) * up` alone."""
    return Subject(
        "glu forward", m, 0, h, lambda: _random((m, h), (m, h), dtype=dtype), lambda g, u: (gated_reference(g, u),),
        0, 3 * m * h,
    )  # fmt: skip


def glu_backward(m: int, h: int, dtype: torch.dtype) -> Subject:
    """Forward and backward of `gelu(gate) * up`."""
    return Subject(
        "glu forward and backward", m, 0, h, lambda: _random((m, h), (m, h), (m, h), dtype=dtype),
        lambda g, u, dy: _with_gradients(gated_reference, (g, u), dy), 0, 8 * m * h,
    )  # fmt: skip


def gate_up(size: Size, dtype: torch.dtype) -> Subject:
    """`gelu(x Wg^T) * (x Wu^T)`: the first half of the MLP."""
    m, d, h = size
    return Subject(
        "gate, up and activation", m, d, h, lambda: _mlp_inputs(size, dtype)[:3],
        lambda x, g, u: (gated_reference(x @ g.t(), x @ u.t()),), 4 * m * d * h, m * d + 2 * d * h + m * h,
    )  # fmt: skip


def mlp_forward(size: Size, dtype: torch.dtype) -> Subject:
    """The whole MLP, inference."""
    m, d, h = size
    return Subject(
        "MLP forward", m, d, h, lambda: _mlp_inputs(size, dtype), lambda *t: (mlp_reference(*t),),
        6 * m * d * h, 2 * m * d + 3 * d * h,
    )  # fmt: skip


def mlp_training(size: Size, dtype: torch.dtype) -> Subject:
    """The whole MLP, forward and backward, gradients of the input and all weights."""
    m, d, h = size
    return Subject(
        "MLP forward and "
        "backward", m, d, h, lambda: (*_mlp_inputs(size, dtype), *_random((m, d), dtype=dtype)),
        lambda *t: _with_gradients(mlp_reference, t[:4], t[4]), 18 * m * d * h, 6 * m * d + 9 * d * h,
    )  # fmt: skip


def _with_gradients(function: Callable[..., Tensor], inputs: Tensors, dy: Tensor) -> Tensors:
    leaves = tuple(tensor.detach().requires_grad_() for tensor in inputs)
    y = function(*leaves)
    return (y, *torch.autograd.grad(y, leaves, dy))


def _random(*shapes: tuple[int, ...], dtype: torch.dtype) -> Tensors:
    return tuple(torch.randn(shape, dtype=dtype, device="cuda") for shape in shapes)


def _mlp_inputs(size: Size, dtype: torch.dtype) -> Tensors:
    """x, gate, up and down weights, scaled as a layer's would be; gate and up one below the other."""
    m, d, h = size
    x, both, down = _random((m, d), (2 * h, d), (d, h), dtype=dtype)
    both /= d**0.5
    down /= h**0.5
    return x, both[:h], both[h:], down
