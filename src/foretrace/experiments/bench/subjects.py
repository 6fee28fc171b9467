"""What is measured: one row of a benchmark is a subject at a size.

A subject is a function of tensors with random inputs, its result in float64, and the work it cannot
avoid: bytes moved (each input read once, each output written once) and floating-point operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from foretrace.kernels.activations import gated_reference
from foretrace.kernels.mlp import mlp_reference
from foretrace.kernels.routes import Size

Tensors = tuple[Tensor, ...]


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


def _sizes(text: str) -> tuple[Size, ...]:
    return tuple((m, d, h) for m, d, h in map(parse_size, text.split()))


# (tokens, model width, hidden width): the main sizes, and twelve more at which ours must not lose.
MAIN = _sizes("8192x768x3072 8192x2048x8192 8192x4096x14336 16x4096x14336")
FURTHER = _sizes(
    "1x512x2048 1x4096x11008 7x1000x3000 64x768x3072 128x2048x5632 257x1152x6912 512x4096x14336 "
    "1000x1001x3003 1024x8192x28672 4096x5120x13824 16384x1024x4096 32768x512x1536"
)
GLU_SIZES = ((8192, 3072), (8192, 8192), (16384, 14336), (1000, 3000), (64, 3072))


@dataclass(frozen=True, slots=True)
class BenchSubject:
    """`inputs` makes them fresh; `plain` computes the result from them in any dtype, as a tuple."""

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
        exact = (tensor.detach().double() for tensor in inputs)
        with torch.enable_grad():
            return tuple(out.detach() for out in self.plain(*exact))


def glu_forward(m: int, h: int, dtype: torch.dtype) -> BenchSubject:
    """`gelu(gate) * up` alone."""

    def plain(gate: Tensor, up: Tensor) -> Tensors:
        return (gated_reference(gate, up),)

    inputs = _inputs((m, h), (m, h), dtype=dtype)
    return BenchSubject("glu forward", m, 0, h, inputs, plain, 0, 3 * m * h)


def glu_backward(m: int, h: int, dtype: torch.dtype) -> BenchSubject:
    """Forward and backward of `gelu(gate) * up`."""

    def plain(gate: Tensor, up: Tensor, dy: Tensor) -> Tensors:
        return _with_gradients(gated_reference, (gate, up), dy)

    inputs = _inputs((m, h), (m, h), (m, h), dtype=dtype)
    return BenchSubject("glu forward and backward", m, 0, h, inputs, plain, 0, 8 * m * h)


def gate_up(size: Size, dtype: torch.dtype) -> BenchSubject:
    """`gelu(x Wg^T) * (x Wu^T)`: the first half of the MLP."""
    m, d, h = size

    def plain(x: Tensor, gate: Tensor, up: Tensor) -> Tensors:
        return (gated_reference(x @ gate.t(), x @ up.t()),)

    def inputs() -> Tensors:
        return _mlp_inputs(size, dtype)[:3]

    flops, elements = 4 * m * d * h, m * d + 2 * d * h + m * h
    return BenchSubject("gate, up and activation", *size, inputs, plain, flops, elements)


def mlp_forward(size: Size, dtype: torch.dtype) -> BenchSubject:
    """The whole MLP, inference."""
    m, d, h = size

    def plain(*tensors: Tensor) -> Tensors:
        return (mlp_reference(*tensors),)

    def inputs() -> Tensors:
        return _mlp_inputs(size, dtype)

    flops, elements = 6 * m * d * h, 2 * m * d + 3 * d * h
    return BenchSubject("MLP forward", *size, inputs, plain, flops, elements)


def mlp_training(size: Size, dtype: torch.dtype) -> BenchSubject:
    """The whole MLP, forward and backward, gradients of the input and all weights."""
    m, d, h = size

    def plain(*tensors: Tensor) -> Tensors:
        return _with_gradients(mlp_reference, tensors[:4], tensors[4])

    def inputs() -> Tensors:
        return (*_mlp_inputs(size, dtype), *_random((m, d), dtype=dtype))

    flops, elements = 18 * m * d * h, 6 * m * d + 9 * d * h
    return BenchSubject("MLP forward and backward", *size, inputs, plain, flops, elements)


def _with_gradients(function: Callable[..., Tensor], inputs: Tensors, dy: Tensor) -> Tensors:
    leaves = tuple(tensor.detach().requires_grad_() for tensor in inputs)
    y = function(*leaves)
    return (y, *torch.autograd.grad(y, leaves, dy))


def _random(*shapes: tuple[int, ...], dtype: torch.dtype) -> Tensors:
    return tuple(torch.randn(shape, dtype=dtype, device="cuda") for shape in shapes)


def _inputs(*shapes: tuple[int, ...], dtype: torch.dtype) -> Callable[[], Tensors]:
    return lambda: _random(*shapes, dtype=dtype)


def _mlp_inputs(size: Size, dtype: torch.dtype) -> Tensors:
    """x and the gate, up and down weights, scaled as in a layer; gate and up share a storage."""
    m, d, h = size
    x, both, down = _random((m, d), (2 * h, d), (d, h), dtype=dtype)
    both /= d**0.5
    down /= h**0.5
    return x, both[:h], both[h:], down
