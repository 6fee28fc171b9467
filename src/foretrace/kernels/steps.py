"""The gated MLP's forward and backward as launches, each part by its route, without autograd.

Every function here takes a `CallCase` and returns a function of tensors that has nothing left to
decide: what a call costs the host is its launches. Sizes are (m, d, h): rows, model width, hidden
width. `x` and `dy` are m rows, and all tensors are on the current device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from foretrace.kernels.case import GRID, SHORT, CallCase
from foretrace.kernels.estimate import MULTIPROCESSORS
from foretrace.kernels.routes import LINE, Plan, Route, alignment, card_name, many, rows_for
from foretrace.kernels.support import HAVE_GLUON, HAVE_TRITON

if HAVE_TRITON:
    from foretrace.kernels.device.apply import (
        gated_apart,
        gated_backward,
        gradients_apart,
        packed_backward,
        packed_forward,
    )
    from foretrace.kernels.device.products import (
        gate_up,
        gate_up_tma,
        gradient_tma,
        narrow_product,
        outer_products,
        takes_pair,
        takes_tma,
    )
    from foretrace.kernels.device.workspace import memory_between
if HAVE_GLUON:
    from foretrace.kernels.device.specialised import (
        gate_up_pingpong,
        gradient_pingpong,
        may_specialise,
        takes_pingpong,
        whole_pingpong,
    )

# The library's usual tile.
TILE = 128
# From how many multiplications on the activations lie in rows that fill cache lines. With fewer,
# matmuls into such rows cost the host more than the GPU gains (H200).
LEAST_LONG = 4 << 30
# Up to how many rows our kernel writes weight gradients faster than the library: a tenth faster
# with 32 rows at 4096x14336, and slower with 64 (H200).
FEW = 32
# Allocates as compiled graphs do, at half the host time of `torch.empty`, on the current device.
_EMPTY = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)

Pair = tuple[Tensor, Tensor | None]
Triple = tuple[Tensor, Tensor, Tensor | None]
# Of x, of gate and up (None, in one tensor or in two), and of down.
Gradients = tuple[Tensor | None, Any, Tensor | None]


def forward(case: CallCase, plan: Plan) -> Callable[..., Tensor]:
    """`(act(x Wg^T) * (x Wu^T)) Wd^T` as a function of x, gate, up and down."""
    compute = _forward(case, plan, save=False)
    return lambda *tensors: compute(*tensors)[0]


def forward_saving(case: CallCase, plan: Plan) -> Callable[..., Triple]:
    """As `forward`, and for backward the activations (m, h), and what `saved_as` says (m, 2h)."""
    return _forward(case, plan, save=True)


def _forward(case: CallCase, plan: Plan, *, save: bool) -> Callable[..., Triple]:
    shared = not save and plan.down.tile is not None
    route = plan.gate_up_saving if save else plan.gate_up
    first, last = gate_up_part(case, route, save=save, shared=shared), down_part(case, plan.down)

    def parts(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Triple:
        middle, pre = first(x, gate, up)
        return last(middle, down), middle, pre

    whole = whole_part(case, plan.whole_saving if save else plan.whole, save=save)
    return parts if whole is None else lambda *tensors: whole(*tensors) or parts(*tensors)


def backward(case: CallCase, plan: Plan) -> Callable[..., Gradients]:
    """The gradients of x, of gate and up one below the other, and of down, as a function of dy, x,
    gate, up, down, the activations, what `saved_as` says, and which of the three are wanted.

    Weights are read last to first, and their gradients written after that: what a forward pass read
    just before, as with checkpoints, is still in L2.
    """
    gradient = gradient_part(case, plan.gradient)
    of_few = few_rows_part(case, case.size[2], apart=False)

    def compute(
        dy: Tensor, x: Tensor, gate: Tensor, up: Tensor, down: Tensor, middle: Tensor, pre: Tensor,
        wanted: tuple[bool, bool, bool],
    ) -> Gradients:  # fmt: skip
        want_x, want_gate_up, want_down = wanted
        dx = d_gate_up = None
        if want_x or want_gate_up:
            grads = gradient(dy, down, pre)
            dx = input_gradient(case, grads, gate, up) if want_x else None
            all_weights = want_gate_up and want_down
            if of_few and all_weights and (few := of_few(grads, grads, x, dy, middle)):
                return dx, *few
            d_gate_up = weight_gradient(grads, x) if want_gate_up else None
        return dx, d_gate_up, torch.mm(dy.t(), middle) if want_down else None

    return compute


def stays_apart(case: CallCase, plan: Plan) -> bool:
    """Whether gate and up are two tensors all through a training step.

    So they are where the library computes everything and the weights are no neighbours: a common
    tensor would cost the host a dozen views and matmuls into parts of it.
    """
    fused = plan.gate_up_saving.tile or plan.gradient.tile or plan.whole_saving.tile
    return HAVE_TRITON and case.order != 2 and fused is None


def apart(case: CallCase) -> tuple[Callable[..., tuple[Tensor, ...]], Callable[..., Gradients]]:
    """Forward, which returns the result and all that backward takes, and backward: see `Call`."""
    step, (new_hidden, linear, product) = hidden_step(case), _into_rows(case)
    activate, differentiate = gated_apart(case, step), gradients_apart(case, step)
    of_few = few_rows_part(case, step, apart=True)

    def saving(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, ...]:
        left, right, middle = linear(x, gate), linear(x, up), new_hidden()
        activate(left, right, middle)
        return F.linear(middle, down), x, gate, up, down, middle, left, right

    def backward(
        dy: Tensor, x: Tensor, gate: Tensor, up: Tensor, down: Tensor, middle: Tensor, left: Tensor,
        right: Tensor, wanted: tuple[bool, bool, bool],
    ) -> Gradients:  # fmt: skip
        want_x, want_gate_up, want_down = wanted
        dx = d_gate_up = None
        if want_x or want_gate_up:
            d_left, d_right = product(dy, down), new_hidden()
            if left.stride(0) == right.stride(0) == step:
                differentiate(d_left, left, right, d_left, d_right)
            else:  # a hook moved what was saved
                gated_backward(d_left, left, right, d_left, d_right, case.activation)
            dx = torch.mm(d_right, up).addmm_(d_left, gate) if want_x else None
            all_weights = want_gate_up and want_down
            if of_few and all_weights and (few := of_few(d_left, d_right, x, dy, middle)):
                return dx, *few
            if want_gate_up:
                d_gate_up = torch.mm(d_left.t(), x), torch.mm(d_right.t(), x)
        return dx, d_gate_up, torch.mm(dy.t(), middle) if want_down else None

    return saving, backward


def _into_rows(case: CallCase) -> tuple[Callable[..., Tensor], ...]:
    """Allocates activations of a case, and computes them: `a b^T` of a weight, and `a b`."""
    step, h = hidden_step(case), case.size[2]
    new_hidden = new(case, h, step=step)
    if step == h:
        return new_hidden, F.linear, torch.mm

    def linear(a: Tensor, b: Tensor) -> Tensor:
        return torch.mm(a, b.t(), out=new_hidden())

    def product(a: Tensor, b: Tensor) -> Tensor:
        return torch.mm(a, b, out=new_hidden())

    return new_hidden, linear, product


def load_pointwise(case: CallCase) -> None:
    """Launch every pointwise kernel of a case over few rows: a capture can load none."""
    m, d, h = case.size
    few = case._replace(size=(1 if m * h & 7 else 8, d, h))
    one, two = new(few, h), new(few, 2 * h)
    gated_apart(few, h)(one(), one(), one())
    gradients_apart(few, h)(one(), one(), one(), one(), one())
    factors = saved_as(case) == "factors"
    packed_forward(few, factors=factors)(two(), one())
    packed_backward(few, "factors" if factors else case.activation)(one(), two(), two())


def saved_as(case: CallCase) -> str:
    """What backward gets of gate and up: the "products", or their "factors" (`math.factors`).

    With factors the gradient of an activation is two multiplications. The loop of the specialised
    gradient then fits in the instruction cache; with GELU in it, half its epilogue waited for
    instructions. Where the library computes gate and up, `products` costs less memory traffic.

    Forward and backward must agree, so that nothing decides it that may change between the two.
    """
    known = HAVE_GLUON and many(case.size) and may_specialise(case)
    return "factors" if known and _specialises(case.device) else "products"


@lru_cache
def _specialises(device: int) -> bool:
    """Whether the table of a card chooses specialised kernels; asked once, tables may change."""
    return any(row.route.startswith("pingpong") for row in rows_for(card_name(device)))


def new(
    case: CallCase, columns: int, rows: int | None = None, step: int | None = None
) -> Callable[[], Tensor]:
    """Allocates columns for each row of a case, or for `rows`; a row begins `step` elements after
    the one before.
    """
    shape, strides = (case.size[0] if rows is None else rows, columns), (step or columns, 1)
    if case.device >= 0 and _EMPTY is not None:
        return partial(_EMPTY, shape, strides, case.dtype)
    device = case.device if case.device >= 0 else "cpu"
    return partial(torch.empty_strided, shape, strides, dtype=case.dtype, device=device)


def hidden_step(case: CallCase) -> int:
    """Elements from one row of the activations to the next.

    Kernels of ours and of the library write and read rows that fill cache lines faster: by 8% at
    241x3616x11880 on an H200. Inductor does the same.
    """
    m, d, h = case.size
    long = case.dtype in SHORT and m * d * h >= LEAST_LONG and alignment(case.size) == 8
    return h + -h % LINE if long else h


def whole_part(case: CallCase, route: Route, *, save: bool) -> Callable[..., Triple | None] | None:
    """The result, the activations, and with `save` what `saved_as` says, of x, gate, up and down.

    None where the route computes the parts one after the other, or one launch cannot do it; the
    function returns None where that shows at the launch.
    """
    if route.tile is None or not HAVE_GLUON or not takes_pingpong(case):
        return None
    _, d, h = case.size
    new_y, new_middle, new_pre = new(case, d), new(case, h), new(case, 2 * h)
    launch = whole_pingpong(case, route.tile, saved_as(case) if save else "")

    def compute(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Triple | None:
        y, middle, pre = new_y(), new_middle(), new_pre() if save else None
        done = launch(x, gate, up, down, middle, middle if pre is None else pre, y)
        return (y, middle, pre) if done else None

    return compute


def gate_up_part(
    case: CallCase, route: Route, *, save: bool = False, shared: bool = False
) -> Callable[[Tensor, Tensor, Tensor], Pair]:
    """`act(x Wg^T) * (x Wu^T)`, and with `save` what `saved_as` says, of x, gate and up.

    `shared`: the activations may go to the start of memory that the next call uses too.
    """
    m, _, h = case.size
    kept = saved_as(case) if save else ""
    # Other kernels of ours find rows by the hidden width, and so do those of the next call.
    step = hidden_step(case) if route.kind == "pingpong" and not (save or shared) else h
    fused, new_pre = _fused_gate_up(case, route, kept, step), new(case, 2 * h)
    if fused is not None:
        new_middle = new(case, h, step=step)

        def compute(x: Tensor, gate: Tensor, up: Tensor) -> Pair:
            middle = memory_between(x, m, h) if shared else new_middle()
            pre = new_pre() if save else None
            fused(x, gate, up, middle, middle if pre is None else pre)
            return middle, pre

        return compute
    if not save and case.order != 2:
        _, linear, _ = _into_rows(case)
        activate = gated_apart(case, hidden_step(case))

        def apart(x: Tensor, gate: Tensor, up: Tensor) -> Pair:
            left, right = linear(x, gate), linear(x, up)
            activate(left, right, left)
            return left, None

        return apart
    packed, new_middle = packed_forward(case, factors=kept == "factors"), new(case, h)

    def together(x: Tensor, gate: Tensor, up: Tensor) -> Pair:
        pre, middle = products(case, x, gate, up, new_pre), new_middle()
        packed(pre, middle)
        return middle, pre

    return together


def _fused_gate_up(
    case: CallCase, route: Route, kept: str, step: int
) -> Callable[..., None] | None:
    """The launch of a route; None where the library runs."""
    kind, tile = route
    if tile is None or (kept == "factors" and kind != "pingpong"):
        return None
    if kind == "pointer":
        return gate_up(case, tile, kept)
    if kind == "tma" and takes_tma(case) and takes_pair(case):
        return gate_up_tma(case, tile, kept)
    if kind == "pingpong" and HAVE_GLUON and takes_pingpong(case):
        return gate_up_pingpong(case, tile, kept, step)
    return None


def products(
    case: CallCase, x: Tensor, gate: Tensor, up: Tensor, new_pre: Callable[[], Tensor]
) -> Tensor:
    """`x Wg^T` and `x Wu^T` side by side, (m, 2h): one matmul where the weights are stacked."""
    packed = stacked(gate, up) if case.order == 2 else None
    if packed is not None:
        return F.linear(x, packed)
    both = new_pre()
    left, right = both.chunk(2, 1)
    torch.mm(x, gate.t(), out=left)
    torch.mm(x, up.t(), out=right)
    return both


def down_part(case: CallCase, route: Route) -> Callable[[Tensor, Tensor], Tensor]:
    """`middle Wd^T`, of the activations and down."""
    if route.tile is None:
        return F.linear
    launch, new_y = narrow_product(case, route.tile), new(case, case.size[1])

    def compute(middle: Tensor, down: Tensor) -> Tensor:
        y = new_y()
        launch(middle, down, y)
        return y

    return compute


def gradient_part(case: CallCase, route: Route) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The gradients of gate and up, side by side, (m, 2h), of dy, down and what `saved_as` says."""
    new_grads = new(case, 2 * case.size[2])
    activation = "factors" if saved_as(case) == "factors" else case.activation
    kind, tile = route
    launch: Callable[..., None] | None = None
    if tile is not None and kind == "pingpong" and HAVE_GLUON and takes_pingpong(case):
        launch = gradient_pingpong(case, tile, activation)
    elif tile is not None and kind == "tma" and takes_tma(case):
        launch = gradient_tma(case, tile, activation)
    packed = packed_backward(case, activation)

    def compute(dy: Tensor, down: Tensor, pre: Tensor) -> Tensor:
        grads = new_grads()
        # A hook may have moved what was saved.
        if launch is None or down.stride(0) != case.rows[3] or down.data_ptr() & (GRID - 1):
            packed(torch.mm(dy, down), pre, grads)
        else:
            launch(dy, down, pre, grads)
        return grads

    return compute


def few_rows_part(
    case: CallCase, step: int, *, apart: bool
) -> Callable[..., tuple[Any, Tensor] | None] | None:
    """The gradients of all weights in one launch, of those of gate and of up, x, dy, and the
    activations, `step` elements from row to row.

    None where the library is faster; the function returns None where a graph cannot capture it.
    """
    m, d, h = case.size
    x_row = case.rows[0]
    if not (HAVE_TRITON and m <= FEW and case.dtype in SHORT and x_row):
        return None
    launch = outer_products(case, step, apart)
    new_both, new_one, new_down = new(case, d, 2 * h), new(case, d, h), new(case, h, d)

    def compute(
        left: Tensor, right: Tensor, x: Tensor, dy: Tensor, middle: Tensor
    ) -> tuple[Any, Tensor] | None:
        x, middle, d_down = _in_rows(x, x_row), _in_rows(middle, step), new_down()
        if apart:
            d_gate, d_up = both = new_one(), new_one()
            done = launch(left, right, x, dy, middle, d_gate, d_up, d_down)
            return (both, d_down) if done else None
        d_both = new_both()
        done = launch(left, right, x, dy, middle, d_both, d_both, d_down)
        return (d_both, d_down) if done else None

    return compute


def load_few_rows(dtype: torch.dtype, device: int, side: int) -> None:
    """Launch what writes the weight gradients of few rows, of widths like `side`: see above."""
    for m in (FEW // 2, FEW):
        case = CallCase((m, side, side), dtype, device, "", (side,) * 4, True, 2)
        rows, both = new(case, side)(), new(case, 2 * side)()
        if of_few := few_rows_part(case, side, apart=False):
            of_few(both, both, rows, rows, rows)


def _in_rows(tensor: Tensor, step: int) -> Tensor:
    """What a hook may have moved, with `step` elements from row to row again."""
    if tensor.stride() == (step, 1):
        return tensor
    return tensor.new_empty_strided(tensor.shape, (step, 1)).copy_(tensor)


def weight_gradient(grads: Tensor, x: Tensor) -> Tensor:
    """The gradients of the gate and up weights, one below the other, (2h, d).

    A matmul with few tiles is split along its depth, and the library adds such parts in bf16: as
    one matmul it would err four times as much as the two of eager (528x192x4097, H200).
    """
    rows, cols = grads.shape[1], x.shape[1]
    if -(-rows // TILE) * -(-cols // TILE) >= MULTIPROCESSORS:
        return torch.mm(grads.t(), x)
    both = x.new_empty((rows, cols))
    upper, lower = both.chunk(2)
    left, right = grads.t().chunk(2)
    torch.mm(left, x, out=upper)
    torch.mm(right, x, out=lower)
    return both


def input_gradient(case: CallCase, grads: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """`dgate Wg + dup Wu`, without a separate addition either way."""
    packed = stacked(gate, up) if case.order == 2 else None
    if packed is not None:
        return torch.mm(grads, packed)
    left, right = grads.chunk(2, 1)
    return torch.mm(right, up).addmm_(left, gate)


def stacked(gate: Tensor, up: Tensor) -> Tensor | None:
    """Both weights as one (2h, d) tensor, if up begins where gate ends; None otherwise."""
    h, d = gate.shape
    if up.data_ptr() - gate.data_ptr() != h * d * gate.element_size():
        return None
    if not (gate.is_contiguous() and up.is_contiguous()):
        return None
    base: Any = gate._base  # of `gate, up = both.chunk(2)`: `both` itself, without a further view
    if base is not None and base is up._base and base.shape == (2 * h, d) and base.is_contiguous():
        return base
    # Neighbours by chance, in storages of their own, must not be joined.
    same = gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr()
    return gate.as_strided((2 * h, d), (d, 1)) if same else None
