"""What is measured: one row of a benchmark is a subject at a size.

A subject is a function of tensors with random inputs, its result in float64, and the work it cannot
avoid: bytes moved (each input read once, each output written once) and floating-point operations.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from foretrace.base.errors import UsageError
from foretrace.kernels.case import Size
from foretrace.kernels.glu import gated_reference
from foretrace.kernels.mlp import mlp_reference

Tensors = tuple[Tensor, ...]


def dtype_named(name: str) -> torch.dtype:
    """`bfloat16` -> torch.bfloat16."""
    found: torch.dtype = getattr(torch, name)
    return found


def parse_size(text: str, parts: int = 3) -> tuple[int, ...]:
    """`8192x768x3072` -> (8192, 768, 3072); a size of two parts has no model width."""
    try:
        size = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        size = ()
    if len(size) != parts or min(size) < 1:
        like = "8192x3072" if parts == 2 else "8192x768x3072"
        raise UsageError(f"{text!r} is not a size such as {like}")
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


def random_sizes(count: int, seed: int, unit: int = 0) -> tuple[Size, ...]:
    """Sizes that nobody chose: 1 to 16384 rows, widths of 512 to 8192, hidden 1.5 to 4 times that.

    Rows and widths are spread evenly over octaves. Widths are multiples of `unit`; without one they
    are multiples of eight at two sizes in three, and of nothing at the third.
    """
    chance = random.Random(seed)
    found = []
    for number in range(count):
        m = round(2 ** chance.uniform(0, 14))
        d = 2 ** chance.uniform(9, 13)
        h = d * chance.uniform(1.5, 4)
        step = unit or (1 if number % 3 == 2 else 8)
        found.append((m, step * round(d / step), step * round(h / step)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class BenchSubject:
    """`function` in plain torch; `inputs` makes them fresh, a backward's with `dy` as the last."""

    name: str
    m: int
    d: int
    h: int
    inputs: Callable[[], Tensors]
    function: Callable[..., Tensor]
    flops: int
    elements: int
    activation: str = "gelu_tanh"

    @property
    def trains(self) -> bool:
        """Whether the gradients of all inputs are results too."""
        return "backward" in self.name

    def truth(self, inputs: Tensors) -> Tensors:
        """The results in float64."""
        exact = tuple(tensor.detach().double() for tensor in inputs)
        if not self.trains:
            return (self.function(*exact).detach(),)
        leaves = tuple(tensor.requires_grad_() for tensor in exact[:-1])
        with torch.enable_grad():
            y = self.function(*leaves)
        return (y.detach(), *torch.autograd.grad(y, leaves, exact[-1]))


def glu(m: int, h: int, dtype: torch.dtype, *, trains: bool = False) -> BenchSubject:
    """`gelu(gate) * up` alone: forward, or forward and backward."""
    name, moved = ("glu forward and backward", 8) if trains else ("glu forward", 3)
    inputs = partial(_random, *[(m, h)] * (3 if trains else 2), dtype=dtype)
    return BenchSubject(name, m, 0, h, inputs, gated_reference, 0, moved * m * h)


def gate_up(size: Size, dtype: torch.dtype) -> BenchSubject:
    """`gelu(x Wg^T) * (x Wu^T)`: the first half of the MLP."""
    m, d, h = size

    def plain(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
        return gated_reference(F.linear(x, gate), F.linear(x, up))

    work = (4 * m * d * h, m * d + 2 * d * h + m * h)
    inputs = partial(_mlp_inputs, size, dtype, 3)
    return BenchSubject("gate, up and activation", *size, inputs, plain, *work)


def mlp(
    size: Size, dtype: torch.dtype, activation: str = "gelu_tanh", *, trains: bool = False
) -> BenchSubject:
    """The whole MLP: inference, or forward and backward, gradients of the input and all weights."""
    m, d, h = size
    name = "MLP forward and backward" if trains else "MLP forward"
    named = name if activation == "gelu_tanh" else f"{name}, {activation}"
    times = 3 if trains else 1  # what backward adds is twice the forward pass
    work = (times * 6 * m * d * h, times * (2 * m * d + 3 * d * h))
    inputs = partial(_mlp_inputs, size, dtype, 5 if trains else 4)
    plain = partial(mlp_reference, activation=activation)
    return BenchSubject(named, *size, inputs, plain, *work, activation)


def _random(*shapes: tuple[int, ...], dtype: torch.dtype) -> Tensors:
    # A generator of its own: a capture that fails leaves the common one unusable.
    chance = torch.Generator("cuda").manual_seed(0)
    return tuple(torch.randn(s, dtype=dtype, device="cuda", generator=chance) for s in shapes)


def _mlp_inputs(size: Size, dtype: torch.dtype, count: int) -> Tensors:
    """The first `count` of x, the gate, up and down weights, scaled as in a layer, and dy.

    Gate and up are apart, as `nn.Linear` keeps them: stacked weights would hide what two matmuls
    cost the host.
    """
    m, d, h = size
    x, gate, up, down, dy = _random((m, d), (h, d), (h, d), (d, h), (m, d), dtype=dtype)
    gate /= d**0.5
    up /= d**0.5
    down /= h**0.5
    return (x, gate, up, down, dy)[:count]
