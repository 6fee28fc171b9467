# mypy: disable-error-code="misc,untyped-decorator"
"""The gated MLP as a function: `gated_mlp(x, w_gate, w_up, w_down)`.

Eager calls launch directly. Compilers, subclasses and dispatch modes see two opaque operators,
`foretrace::gated_mlp` and `foretrace::gated_mlp_backward`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from foretrace.kernels import steps
from foretrace.kernels.case import GRID, CallCase, Size, order_of
from foretrace.kernels.glu import ACTIVATIONS, activation_named, gated_reference
from foretrace.kernels.routes import (
    ALL_LIBRARY,
    LINE,
    MANY,
    PARTS,
    Plan,
    alignment,
    copies_pay,
    note_loaded,
    plain,
    plan,
    plan_loaded,
)
from foretrace.kernels.support import HAVE_TRITON, INTERPRETED, note_once, traced, why_not

if HAVE_TRITON:
    from foretrace.kernels.device.padding import pad

# From how many rows on those that are not on the 16-byte grid are padded. A copy of the weights
# takes as long as the matmuls of about 300 rows (H200, 1001 to 4100 wide).
LEAST_PADDED = 256
# In training five copies cost the host more than fewer multiplications save the GPU (H200), but for
# a CUDA graph, which costs the host nothing.
LEAST_TRAINED = 2 << 30


def mlp_reference(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str = "gelu_tanh"
) -> Tensor:
    """The gated MLP in plain torch: any device, any dtype, differentiable."""
    return F.linear(gated_reference(F.linear(x, w_gate), F.linear(x, w_up), activation), w_down)


class Call(NamedTuple):
    """How calls of one `CallCase` are computed, as functions of x, gate, up and down: see `steps`.

    `saving` returns the result and all that `backward` takes, before which of the gradients are
    wanted and after `dy`.
    """

    forward: Callable[..., Tensor]
    saving: Callable[..., tuple[Tensor, ...]]
    backward: Callable[..., steps.Gradients]


# Calls that came before, by the shape of x and the activation, the last ones first: a guard that
# says in one step whether modes, types, dtypes, devices, shapes and strides are the same again;
# whether gradients are on, the device, `aligned` and `order` of the `CallCase`, and what to call.
_Known = tuple[Callable[..., bool], bool, int, bool, int, Callable[..., Tensor]]
_known: dict[tuple[torch.Size, str], list[_Known]] = {}
_MOST, _MOST_OF_A_SHAPE = 4096, 8
# What compiled code checks its inputs by: a tenth of the host time of asking for each fact.
_Guards = getattr(torch._C._dynamo.guards, "TensorGuards", None)


def forget() -> None:
    """Choose routes anew from now on: tables have changed."""
    _chosen.cache_clear()
    _known.clear()


def gated_mlp(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str = "gelu_tanh"
) -> Tensor:
    """`(act(x Wg^T) * (x Wu^T)) Wd^T` for weights of `nn.Linear`: (h, d), (h, d) and (d, h).

    Each part takes the fastest measured route (see `routes`). Differentiable once in all four
    tensors. Under autocast everything is cast first, as for a linear layer.
    """
    if torch.compiler.is_compiling():
        return _dispatched(x, w_gate, w_up, w_down, activation)
    for guard, grad, device, aligned, order, run in _known.get((x.shape, activation), ()):
        if guard(x, w_gate, w_up, w_down) and torch.is_grad_enabled() == grad:
            start, second = w_gate.data_ptr(), w_up.data_ptr()
            off_grid = (x.data_ptr() | start | second | w_down.data_ptr()) & (GRID - 1)
            if (
                aligned == (not off_grid)
                and order == order_of(second - start, w_gate, w_up)
                and torch._C._cuda_getDevice() == device
                and not torch._C._cuda_isCurrentStreamCapturing()
            ):
                return run(x, w_gate, w_up, w_down)
    return _unknown(x, w_gate, w_up, w_down, activation)


def _unknown(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str) -> Tensor:
    """A call unlike those before, or one that may not launch directly."""
    tensors = x, w_gate, w_up, w_down
    if not (x.is_cuda or INTERPRETED) or torch.is_autocast_enabled("cuda") or traced(*tensors):
        return _dispatched(x, w_gate, w_up, w_down, activation)
    as_is = 0 in x.shape or (x.stride(1) == 1 if x.dim() == 2 else x.is_contiguous())
    if not as_is:
        return gated_mlp(_rows(x), w_gate, w_up, w_down, activation).reshape(x.shape)
    device = x.get_device()
    if device >= 0 and torch._C._cuda_getDevice() != device:
        with torch.cuda.device(device):
            return gated_mlp(x, w_gate, w_up, w_down, activation)
    rows = x if x.dim() == 2 or 0 in x.shape else x.view(-1, x.shape[-1])
    call = _call(rows, w_gate, w_up, w_down, activation)
    if call is None:
        return mlp_reference(x, w_gate, w_up, w_down, activation_named(activation))
    if rows is not x:
        call = _shaped(call, x.shape)
    run = partial(_differentiable, call) if _saves(*tensors) else call.forward
    if device >= 0 and _Guards is not None and not _capturing(device):
        shapes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
        guard = _Guards(*tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides).check
        case = CallCase.of(rows, w_gate, w_up, w_down, activation)
        if len(_known) >= _MOST:
            _known.clear()
        before = _known.setdefault((x.shape, activation), [])
        before[_MOST_OF_A_SHAPE - 1 :] = []
        grad = torch.is_grad_enabled()
        before.insert(0, (guard, grad, device, case.aligned, case.order, run))
    return run(x, w_gate, w_up, w_down)


def _saves(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _call(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str, direct: bool = True
) -> Call | None:
    """How to compute this, `x` as rows; None where plain torch runs.

    An operator (not `direct`) keeps the same tensors for backward whatever the route.
    """
    reason = why_not(x.device, x.dtype)
    if reason is not None:
        note_once(reason)
        return None
    _check(x, w_gate, w_up, w_down)
    if 0 in x.shape or 0 in w_gate.shape:
        return None
    case = CallCase.of(x, w_gate, w_up, w_down, activation_named(activation))
    return (_chosen.__wrapped__ if _capturing(x.get_device()) else _chosen)(case, direct)


@lru_cache(maxsize=_MOST)
def _chosen(case: CallCase, direct: bool) -> Call:
    if direct and all(case.rows) and pays_to_pad(case):
        return _padded(case)
    return _unpadded(case, direct)


def _unpadded(case: CallCase, direct: bool) -> Call:
    routes = _plan(case) if all(case.rows) else ALL_LIBRARY
    if case.device >= 0 and not _capturing(case.device):
        # Load what the library needs besides, where a graph takes it and a call does not.
        best = plan(case.device, case.dtype, case.size, True)
        both = zip(PARTS, best, routes, strict=True)
        parts = [part for part, one, other in both if one.tile is None and other.tile is not None]
        if parts:
            steps.load_pointwise(case)
        for part in parts:
            note_loaded(part, plain(part), case.dtype, case.activation, alignment(case.size))
    if direct and steps.stays_apart(case, routes):
        return Call(steps.forward(case, routes), *steps.apart(case))
    compute = steps.forward_saving(case, routes)

    def saving(*tensors: Tensor) -> tuple[Tensor, ...]:
        y, middle, pre = compute(*tensors)
        return y, *tensors, middle, pre

    return Call(steps.forward(case, routes), saving, steps.backward(case, routes))


def _capturing(device: int) -> bool:
    return bool(device >= 0 and torch._C._cuda_isCurrentStreamCapturing())


def _dispatched(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str) -> Tensor:
    """A call that a compiler, a subclass, a mode, autocast or a CPU takes elsewhere."""
    activation = activation_named(activation)
    plain = not (x.is_cuda or INTERPRETED)
    if not torch.compiler.is_compiling():  # which takes the operator wherever it may run
        reason = why_not(x.device, x.dtype)
        plain = reason is not None
        if reason is not None:
            note_once(reason)
    if plain:
        return mlp_reference(x, w_gate, w_up, w_down, activation)
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        tensors = x.to(dtype), w_gate.to(dtype), w_up.to(dtype), w_down.to(dtype)
        with torch.autocast("cuda", enabled=False):
            return gated_mlp(*tensors, activation)
    _check(x, w_gate, w_up, w_down)
    save = _saves(x, w_gate, w_up, w_down)
    return _mlp_op(x, w_gate, w_up, w_down, activation, save)[0]


def _shaped(call: Call, shape: torch.Size) -> Call:
    """A call of rows for an `x` of another shape: autograd sees no view."""
    rows = -1, shape[-1]

    def saving(x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        y, *saved = call.saving(x.view(rows), *weights)
        return y.view(shape), *saved

    def backward(dy: Tensor, *saved: Any) -> steps.Gradients:
        dx, d_gate_up, d_down = call.backward(dy.view(rows), *saved)
        return None if dx is None else dx.view(shape), d_gate_up, d_down

    forward = lambda x, *weights: call.forward(x.view(rows), *weights).view(shape)  # noqa: E731
    return Call(forward, saving, backward)


def pays_to_pad(case: CallCase) -> bool:
    """Whether to copy everything into rows that fill cache lines.

    Tensor cores take no rows off the 16-byte grid. Others they take, but our kernels are slow
    where rows do not fill lines: there many rows pay for the copies.
    """
    unit = alignment(case.size)
    if case.dtype == torch.float32 or unit == LINE or case.size[0] < LEAST_PADDED:
        return False
    return unit < 8 or (case.size[0] >= MANY and copies_pay(case.device, case.size, longer(case)))


def longer(case: CallCase) -> Size:
    """The size with rows that fill cache lines."""
    m, d, h = case.size
    return m, d + -d % LINE, h + -h % LINE


def _padded(case: CallCase) -> Call:
    """Zeros beyond the end of rows and columns add nothing, and every activation keeps them."""
    m, d, h = case.size
    _, wide, deep = longer(case)
    same = wide == d and case.aligned and not case.rows[0] & 7
    rows = case.rows[0] if same else wide, wide, wide, deep
    inner = case._replace(size=(m, wide, deep), rows=rows, aligned=True, order=2)
    call = _unpadded(inner, direct=False)

    def copy(shape: tuple[int, int], step: int, out: tuple[int, int]) -> Callable[..., Tensor]:
        empty = steps.new(case, out[1], out[0])
        launch = pad(case.device, case.dtype, shape, step, out)

        def run(source: Tensor, target: Tensor | None = None) -> Tensor:
            target = empty() if target is None else target
            launch(source, target)
            return target

        return run

    x_row, gate_row, up_row, down_row = case.rows
    of_x, of_dy = copy((m, d), x_row, (m, wide)), copy((m, d), d, (m, wide))
    of_gate, of_up = (copy((h, d), row, (deep, wide)) for row in (gate_row, up_row))
    of_down, new_both = copy((d, h), down_row, (wide, deep)), steps.new(case, wide, 2 * deep)

    def copied(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, ...]:
        upper, lower = new_both().chunk(2)
        return x if same else of_x(x), of_gate(gate, upper), of_up(up, lower), of_down(down)

    def saving(*tensors: Tensor) -> tuple[Tensor, ...]:
        y, *saved = call.saving(*copied(*tensors))
        return y[:, :d], *saved

    def backward(dy: Tensor, *saved: Any) -> steps.Gradients:
        dx, d_gate_up, d_down = call.backward(dy if wide == d else of_dy(dy), *saved)
        if d_gate_up is not None:
            d_gate_up = d_gate_up.view(2, deep, wide)[:, :h, :d]
        d_down = None if d_down is None else d_down[:d, :h]
        return None if dx is None else dx[:, :d], d_gate_up, d_down

    forward = lambda *tensors: call.forward(*copied(*tensors))[:, :d]  # noqa: E731
    if m * d * h >= LEAST_TRAINED or _capturing(case.device):
        return Call(forward, saving, backward)
    # A graph that is captured later pays no host time, and loads no kernel.
    copy((1, 1), 1, (1, 8))(steps.new(case, 1, 1)())
    return _unpadded(case, direct=True)._replace(forward=forward)


def _check(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor) -> None:
    """Everything fits together."""
    h, d = shape = w_gate.shape
    if w_up.shape != shape or w_down.shape != (d, h) or x.shape[-1] != d:
        shapes = ", ".join(str(tuple(t.shape)) for t in (x, w_gate, w_up, w_down))
        raise ValueError(f"x, gate, up and down do not fit together: {shapes}")
    for what in ("dtype", "device"):
        found = [getattr(t, what) for t in (x, w_gate, w_up, w_down)]
        if len(set(found)) > 1:
            texts = ", ".join(map(str, found))
            raise ValueError(f"x, gate, up and down have different {what}s: {texts}")


def _plan(case: CallCase) -> Plan:
    if _capturing(case.device):
        stacked = case.order == 2
        return plan_loaded(case.device, case.dtype, case.size, case.activation, stacked)
    return plan(case.device, case.dtype, case.size, False, case.order == 2)


def _rows(x: Tensor) -> Tensor:
    """`x` as rows whose elements follow each other."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _regular(dy: Tensor) -> Tensor:
    """`dy` as the kernels take it: contiguous, on the 16-byte grid."""
    dy = dy.contiguous()
    return dy.clone() if dy.data_ptr() & (GRID - 1) else dy


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, call: Call
    ) -> Tensor:
        y, *saved = call.saving(x, w_gate, w_up, w_down)
        ctx.save_for_backward(*saved)
        ctx.call = call
        # Autograd refuses to change a view in place that a function of its user returned.
        return y if y._base is None else y.detach()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        # Without `create_graph` gradients are off here, and nothing is left to refuse.
        return _once_only(ctx, dy) if torch.is_grad_enabled() else _backward(ctx, dy)


# `Function.apply` without its care for functorch, under whose transforms no call comes here.
_apply = super(torch.autograd.Function, _Mlp).apply


def _differentiable(call: Call, *tensors: Tensor) -> Tensor:
    return _apply(*tensors, call)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    saved, call = ctx.saved_tensors, ctx.call
    need_x, need_gate, need_up, need_down, _ = ctx.needs_input_grad
    wanted = need_x, need_gate or need_up, need_down
    dx, d_gate_up, d_down = call.backward(_regular(dy), *saved, wanted)
    if d_gate_up is None:
        return dx, None, None, d_down, None
    if isinstance(d_gate_up, Tensor):
        d_gate_up = d_gate_up.chunk(2) if d_gate_up.dim() == 2 else d_gate_up.unbind()
    d_gate, d_up = d_gate_up
    return dx, d_gate, d_up, d_down, None


_once_only = once_differentiable(_backward)


# `foretrace`; a copy loaded under another name registers its operators under that one.
_NAMESPACE = __name__.partition(".")[0]


@torch.library.custom_op(f"{_NAMESPACE}::gated_mlp", mutates_args=())
def _mlp_op(
    x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, activation: str, save: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and with `save` what backward needs (empty tensors otherwise)."""
    call = None if 0 in x.shape else _call(_rows(x), w_gate, w_up, w_down, activation, False)
    if call is None:
        h, d = w_gate.shape
        pre = F.linear(x.reshape(-1, d), torch.cat((w_gate, w_up)))
        middle = gated_reference(pre[:, :h], pre[:, h:], activation)
        y = F.linear(middle, w_down).view(x.shape)
        return (y, middle, pre) if save else (y, x.new_empty(0), x.new_empty(0))
    rows = _rows(x)
    if not save:
        y = call.forward(rows, w_gate, w_up, w_down)
        return y.view(x.shape), x.new_empty(0), x.new_empty(0)
    y, *_, middle, pre = call.saving(rows, w_gate, w_up, w_down)
    return y.view(x.shape), middle, pre


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
    weights = w_gate, w_up, w_down
    call = None if 0 in x.shape else _call(_rows(x), *weights, activation, False)
    d = w_gate.shape[1]
    dy, rows = dy.reshape(-1, d), _rows(x)
    if call is None:
        gate, up = pre.chunk(2, dim=1)
        act, dm = ACTIVATIONS[activation], dy @ w_down
        grads = torch.cat((act.back(dm * up, gate), dm * act.torch(gate)), dim=1)
        dx = (grads @ torch.cat((w_gate, w_up))).view(x.shape)
        return dx, grads.t() @ x.reshape(dy.shape), dy.t() @ middle
    wanted = True, True, True
    got = call.backward(_regular(dy), rows, *weights, middle, pre, wanted)
    dx, d_gate_up, d_down = (grad for grad in got if grad is not None)
    return dx.view(x.shape), d_gate_up, d_down


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
