# mypy: disable-error-code="misc,untyped-decorator"
"""The gated MLP as a function: `gated_mlp(x, w_gate, w_up, w_down)`.

Eager calls launch directly. Compilers, subclasses and dispatch modes see two opaque operators,
`foretrace::gated_mlp` and `foretrace::gated_mlp_backward`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from foretrace.kernels import steps
from foretrace.kernels.activations import ACTIVATIONS, activation_named, gated_reference
from foretrace.kernels.estimate import Size
from foretrace.kernels.routes import Plan, alignment, plan, plan_loaded
from foretrace.kernels.support import HAVE_TRITON, INTERPRETED, note_once, traced, why_not

if HAVE_TRITON:
    from foretrace.kernels.device.padding import pad

# Where rows are not on the 16-byte grid: to what they are padded, and from how many rows on. A copy
# of the weights takes as long as the matmuls of about 300 rows (H200, 1001 to 4100 wide).
UNIT, LEAST_PADDED = 64, 256


def mlp_reference(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str = "gelu_tanh"
) -> Tensor:
    """The gated MLP in plain torch: any device, any dtype, differentiable."""
    return F.linear(gated_reference(F.linear(x, w_gate), F.linear(x, w_up), activation), w_down)


def gated_mlp(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str = "gelu_tanh"
) -> Tensor:
    """`(act(x Wg^T) * (x Wu^T)) Wd^T` for weights of `nn.Linear`: (h, d), (h, d) and (d, h).

    Each part takes the fastest measured route (see `routes`). Differentiable once in all four
    tensors. Under autocast everything is cast first, as for a linear layer.
    """
    if activation not in ACTIVATIONS:
        activation = activation_named(activation)
    compiling = torch.compiler.is_compiling()
    if compiling:  # on a CPU the plain expression, else the operator, which knows the GPU
        plain = not x.is_cuda and not INTERPRETED
    else:
        reason = why_not(x.device, x.dtype)
        plain = reason is not None
        if reason is not None:
            note_once(reason)
    if plain:
        return mlp_reference(x, w_gate, w_up, w_down, activation)
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        x, w_gate, w_up, w_down = x.to(dtype), w_gate.to(dtype), w_up.to(dtype), w_down.to(dtype)
    size = _size(x, w_gate, w_up, w_down)
    save = torch.is_grad_enabled() and (
        x.requires_grad or w_gate.requires_grad or w_up.requires_grad or w_down.requires_grad
    )
    if compiling or traced(x, w_gate, w_up, w_down):
        return _mlp_op(x, w_gate, w_up, w_down, activation, save)[0]
    if pays_to_pad(size) and x.dtype != torch.float32:
        take = _Pad.apply if save else pad
        return _padded(take, x, steps.Weights(w_gate, w_up, w_down), activation)
    if save:
        return _Mlp.apply(x, w_gate, w_up, w_down, activation)
    return _forward(x, steps.Weights(w_gate, w_up, w_down), activation, size)


def pays_to_pad(size: Size) -> bool:
    """Whether to copy everything into rows that tensor cores take."""
    return size[0] >= LEAST_PADDED and alignment(size) < 8


def _padded(
    take: Callable[..., Tensor], x: Tensor, weights: steps.Weights, activation: str
) -> Tensor:
    """Zeros beyond the end of rows and columns add nothing, and every activation keeps them."""
    gate, up, down = weights
    h, d = gate.shape
    wide, deep = d + -d % UNIT, h + -h % UNIT
    rows = x.reshape(-1, d)
    rows = rows if wide == d else take(rows, rows.shape[0], wide)
    longer = take(gate, deep, wide), take(up, deep, wide), take(down, wide, deep)
    return gated_mlp(rows, *longer, activation)[:, :d].reshape(x.shape)


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, rows: int, cols: int) -> Tensor:
        ctx.shape = source.shape
        return pad(source, rows, cols)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        rows, cols = ctx.shape
        return grad[:rows, :cols], None, None


def _size(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor) -> Size:
    """(m, d, h), after checking that everything fits together."""
    h, d = shape = w_gate.shape
    if w_up.shape != shape or w_down.shape != (d, h) or x.shape[-1] != d:
        shapes = ", ".join(str(tuple(t.shape)) for t in (x, w_gate, w_up, w_down))
        raise ValueError(f"x, gate, up and down do not fit together: {shapes}")
    dtype = x.dtype
    if w_gate.dtype != dtype or w_up.dtype != dtype or w_down.dtype != dtype:
        dtypes = ", ".join(str(t.dtype) for t in (x, w_gate, w_up, w_down))
        raise ValueError(f"x, gate, up and down have different dtypes: {dtypes}")
    return x.numel() // d if d else 0, d, h


def _plan(x: Tensor, size: Size, activation: str) -> Plan:
    device = x.get_device()
    if device >= 0 and torch._C._cuda_isCurrentStreamCapturing():
        return plan_loaded(device, x.dtype, size, activation)
    return plan(device, x.dtype, size)


def _rows(x: Tensor) -> Tensor:
    """`x` such that its rows follow each other at one stride: itself where possible."""
    if x.is_contiguous() and x.dim() > 1:
        return x
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def _forward(x: Tensor, weights: steps.Weights, activation: str, size: Size) -> Tensor:
    rows = _rows(x)
    y = steps.forward(rows, weights, activation, size, _plan(x, size, activation))
    return y if rows is x else y.view(x.shape)


def _forward_saving(
    x: Tensor, weights: steps.Weights, activation: str, size: Size
) -> tuple[Tensor, steps.Saved]:
    routes = _plan(x, size, activation)
    y, saved = steps.forward_saving(_rows(x), weights, activation, size, routes)
    return y.view(x.shape), saved


def _backward(
    dy: Tensor, x: Tensor, weights: steps.Weights, saved: steps.Saved, activation: str,
    wanted: tuple[bool, bool, bool],
) -> steps.Gradients:  # fmt: skip
    m, d, _ = size = _size(x, *weights)
    routes = _plan(x, size, activation)
    rows = _rows(x).view(m, d)
    return steps.backward(dy.reshape(m, d), rows, weights, saved, activation, size, routes, wanted)


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str
    ) -> Tensor:
        weights = steps.Weights(w_gate, w_up, w_down)
        y, saved = _forward_saving(x, weights, activation, _size(x, *weights))
        ctx.save_for_backward(x, w_gate, w_up, w_down, *saved)
        ctx.activation = activation
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, w_gate, w_up, w_down, *saved = ctx.saved_tensors
        need_x, need_gate, need_up, need_down, _ = ctx.needs_input_grad
        grads = _backward(
            dy, x, steps.Weights(w_gate, w_up, w_down), steps.Saved(*saved), ctx.activation,
            (need_x, need_gate or need_up, need_down),
        )  # fmt: skip
        dx = None if grads.x is None else grads.x.view(x.shape)
        if grads.gate_up is None:
            return dx, None, None, grads.down, None
        h = w_gate.shape[0]
        return dx, grads.gate_up[:h], grads.gate_up[h:], grads.down, None


# `foretrace`; a copy loaded under another name registers its operators under that one.
_NAMESPACE = __name__.partition(".")[0]


@torch.library.custom_op(f"{_NAMESPACE}::gated_mlp", mutates_args=())
def _mlp_op(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str, save: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and with `save` what backward needs (empty tensors otherwise)."""
    if why_not(x.device, x.dtype) is not None:
        return _plain_op(x, w_gate, w_up, w_down, activation, save)
    weights = steps.Weights(w_gate, w_up, w_down)
    size = _size(x, *weights)
    if save:
        y, saved = _forward_saving(x, weights, activation, size)
        return y, *saved
    return _forward(x, weights, activation, size), x.new_empty(0), x.new_empty(0)


def _plain_op(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str, save: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The operator on a CPU, for `opcheck` and for graphs exported on another machine."""
    h, d = w_gate.shape
    pre = F.linear(x.reshape(-1, d), torch.cat((w_gate, w_up)))
    middle = gated_reference(pre[:, :h], pre[:, h:], activation)
    y = F.linear(middle, w_down).view(x.shape)
    return (y, middle, pre) if save else (y, x.new_empty(0), x.new_empty(0))


@_mlp_op.register_fake
def _(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str, save: bool
) -> tuple[Tensor, Tensor, Tensor]:
    h, d = w_gate.shape
    rows = x.numel() // d
    y = x.new_empty(x.shape)
    if save:
        return y, x.new_empty((rows, h)), x.new_empty((rows, 2 * h))
    return y, x.new_empty(0), x.new_empty(0)


@torch.library.custom_op(f"{_NAMESPACE}::gated_mlp_backward", mutates_args=())
def _mlp_backward_op(
    dy: Tensor, x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor,
    middle: Tensor, pre: Tensor, activation: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of x, of gate and up one below the other, and of down."""
    weights, saved = steps.Weights(w_gate, w_up, w_down), steps.Saved(middle, pre)
    if why_not(x.device, x.dtype) is not None:
        return _plain_backward_op(dy, x, weights, saved, activation)
    got = _backward(dy, x, weights, saved, activation, (True, True, True))
    dx, d_gate_up, d_down = (grad for grad in got if grad is not None)
    return dx.view(x.shape), d_gate_up, d_down


def _plain_backward_op(
    dy: Tensor, x: Tensor, weights: steps.Weights, saved: steps.Saved, activation: str
) -> tuple[Tensor, Tensor, Tensor]:
    d = weights.gate.shape[1]
    dy, rows = dy.reshape(-1, d), x.reshape(-1, d)
    gate, up = saved.pre.chunk(2, dim=1)
    act, dm = ACTIVATIONS[activation], dy @ weights.down
    grads = torch.cat((act.back(dm * up, gate), dm * act.torch(gate)), dim=1)
    dx = (grads @ torch.cat((weights.gate, weights.up))).view(x.shape)
    return dx, grads.t() @ rows, dy.t() @ saved.middle


@_mlp_backward_op.register_fake
def _(
    dy: Tensor, x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor,
    middle: Tensor, pre: Tensor, activation: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    h, d = w_gate.shape
    return x.new_empty(x.shape), x.new_empty((2 * h, d)), x.new_empty((d, h))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, w_gate, w_up, w_down, activation, save = inputs
    if not save:
        raise RuntimeError("gated_mlp: a differentiable call needs save=True")
    ctx.save_for_backward(x, w_gate, w_up, w_down, *output[1:])
    ctx.activation = activation
    ctx.set_materialize_grads(False)


def _op_backward(
    ctx: Any, dy: Tensor, _middle: Tensor | None, _pre: Tensor | None
) -> tuple[Tensor | None, ...]:
    x, w_gate, *rest = ctx.saved_tensors
    dx, d_gate_up, d_down = _mlp_backward_op(dy.contiguous(), x, w_gate, *rest, ctx.activation)
    h = w_gate.shape[0]
    return dx, d_gate_up[:h], d_gate_up[h:], d_down, None, None


_mlp_op.register_autograd(_op_backward, setup_context=_setup)
