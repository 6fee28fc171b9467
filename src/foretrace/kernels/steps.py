"""The gated MLP's forward and backward as launches, each part by its route, without autograd.

Sizes are (m, d, h): rows, model width, hidden width.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from foretrace.kernels.estimate import MULTIPROCESSORS, Size
from foretrace.kernels.routes import LIBRARY, Plan, Route, card_name, many, rows_for
from foretrace.kernels.support import HAVE_GLUON, HAVE_TRITON

if HAVE_TRITON:
    from foretrace.kernels.device.apply import packed_backward, packed_forward
    from foretrace.kernels.device.products import (
        gate_up,
        gate_up_tma,
        gradient_tma,
        narrow_product,
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
        takes_whole,
        whole_pingpong,
    )

# The library's usual tile.
TILE = 128


class Weights(NamedTuple):
    """As `nn.Linear` keeps them: gate and up (h, d), down (d, h)."""

    gate: Tensor
    up: Tensor
    down: Tensor


class Saved(NamedTuple):
    """For backward: the activations (m, h), and what `saved_as` says, side by side (m, 2h)."""

    middle: Tensor
    pre: Tensor


class Gradients(NamedTuple):
    """Of the input, of the stacked gate and up weights, and of the down weight, where wanted."""

    x: Tensor | None
    gate_up: Tensor | None
    down: Tensor | None


def forward(x: Tensor, weights: Weights, activation: str, size: Size, plan: Plan) -> Tensor:
    """`(act(x Wg^T) * (x Wu^T)) Wd^T`, in the shape of `x`, whose rows have one stride."""
    m, _, h = size
    whole = whole_part(x, weights, activation, size, plan.whole, save=False)
    if whole is not None:
        return whole[0]
    narrow = plan.down.tile is not None
    middle = memory_between(x, m, h) if narrow else x.new_empty((m, h))
    gate_up_part(x, weights, middle, activation, size, plan.gate_up)
    return down_part(middle, weights.down, x, size, plan.down)


def forward_saving(
    x: Tensor, weights: Weights, activation: str, size: Size, plan: Plan
) -> tuple[Tensor, Saved]:
    """As `forward`, and what backward needs."""
    m, _, h = size
    whole = whole_part(x, weights, activation, size, plan.whole_saving, save=True)
    if whole is not None:
        y, middle, pre = whole
    else:
        middle = x.new_empty((m, h))
        pre = gate_up_part(x, weights, middle, activation, size, plan.gate_up_saving, save=True)
        y = down_part(middle, weights.down, x, size, plan.down)
    assert pre is not None
    return y, Saved(middle, pre)


def backward(
    dy: Tensor, x: Tensor, weights: Weights, saved: Saved, activation: str, size: Size, plan: Plan,
    wanted: tuple[bool, bool, bool],
) -> Gradients:  # fmt: skip
    """The gradients `wanted` of (x, gate and up, down), for `dy` and `x` as m rows."""
    want_x, want_gate_up, want_down = wanted
    d_down = dy.t() @ saved.middle if want_down else None
    if not (want_x or want_gate_up):
        return Gradients(None, None, d_down)
    grads = gradient_part(dy, weights.down, saved.pre, activation, size, plan.gradient)
    d_gate_up = weight_gradient(grads, x) if want_gate_up else None
    return Gradients(input_gradient(grads, weights) if want_x else None, d_gate_up, d_down)


def saved_as(like: Tensor, size: Size) -> str:
    """What backward gets of gate and up: the "products", or their "factors" (`math.factors`).

    With factors the gradient of an activation is two multiplications. The loop of the specialised
    gradient then fits in the instruction cache; with GELU in it, half its epilogue waited for
    instructions. Where the library computes gate and up, `products` costs less memory traffic.

    Forward and backward must agree, so that nothing decides it that may change between the two.
    """
    known = HAVE_GLUON and many(size) and may_specialise(like)
    return "factors" if known and _specialises(like.get_device()) else "products"


@lru_cache
def _specialises(device: int) -> bool:
    """Whether the table of a card chooses specialised kernels; asked once, tables may change."""
    return any(row.route.startswith("pingpong") for row in rows_for(card_name(device)))


def whole_part(
    x: Tensor, weights: Weights, activation: str, size: Size, route: Route, *, save: bool
) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """The result in the shape of `x`, the activations, and with `save` what `saved_as` says.

    None where the route computes the parts one after the other, or one launch cannot do it.
    """
    if route.tile is None or not HAVE_GLUON or not takes_whole(x, *weights):
        return None
    m, _, h = size
    y, middle = x.new_empty(x.shape), x.new_empty((m, h))
    pre = x.new_empty((m, 2 * h)) if save else None
    kept = saved_as(x, size) if save else ""
    done = whole_pingpong(x, weights, middle, pre, y, activation, size, route.tile, kept)
    return (y, middle, pre) if done else None


def weight_gradient(grads: Tensor, x: Tensor) -> Tensor:
    """The gradients of the gate and up weights, one below the other, (2h, d).

    A matmul with few tiles is split along its depth, and the library adds such parts in bf16: as
    one matmul it would err four times as much as the two of eager (528x192x4097, H200).
    """
    rows, cols = grads.shape[1], x.shape[1]
    if -(-rows // TILE) * -(-cols // TILE) >= MULTIPROCESSORS:
        return grads.t() @ x
    both, h = x.new_empty((rows, cols)), rows // 2
    torch.mm(grads[:, :h].t(), x, out=both[:h])
    torch.mm(grads[:, h:].t(), x, out=both[h:])
    return both


def gate_up_part(
    x: Tensor, weights: Weights, middle: Tensor, activation: str, size: Size, route: Route,
    *, save: bool = False,
) -> Tensor | None:  # fmt: skip
    """`act(x Wg^T) * (x Wu^T)` into the start of `middle`; with `save`, what `saved_as` says."""
    m, d, h = size
    gate, up, _ = weights
    kept = saved_as(x, size) if save else ""
    if h % 8 or not _takes_gate_up(route.kind, x, gate, up):
        route = LIBRARY if route.kind != "pointer" else route
    if route.tile is None or (kept == "factors" and route.kind != "pingpong"):
        both = products(x if x.dim() == 2 else x.view(m, d), gate, up)
        packed_forward(both, middle, activation, m, h, factors=kept == "factors")
        return both
    pre = x.new_empty((m, 2 * h)) if save else None
    if route.kind == "pingpong":
        gate_up_pingpong(x, gate, up, middle, pre, activation, size, route.tile, kept)
        return pre
    compute = gate_up_tma if route.kind == "tma" else gate_up
    compute(x, gate, up, middle, pre, activation, size, route.tile)
    return pre


def _takes_gate_up(kind: str, x: Tensor, gate: Tensor, up: Tensor) -> bool:
    if kind == "pingpong":
        return HAVE_GLUON and takes_pingpong(x, gate, up)
    return kind != "tma" or (takes_tma(x, gate, up) and takes_pair(gate, up))


def products(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """`x Wg^T` and `x Wu^T` side by side, (m, 2h): one matmul where the weights are stacked."""
    packed = stacked(gate, up)
    if packed is not None:
        return F.linear(x, packed)
    h = gate.shape[0]
    both = x.new_empty((x.shape[0], 2 * h))
    torch.mm(x, gate.t(), out=both[:, :h])
    torch.mm(x, up.t(), out=both[:, h:])
    return both


def down_part(middle: Tensor, w_down: Tensor, x: Tensor, size: Size, route: Route) -> Tensor:
    """`middle Wd^T` in the shape of `x`."""
    if route.tile is None:
        y = F.linear(middle, w_down)
        return y if x.dim() == 2 else y.view(x.shape)
    # `empty_like` of a contiguous tensor is the cheapest allocation there is.
    y = torch.empty_like(x) if x.is_contiguous() else x.new_empty(x.shape)
    narrow_product(middle, w_down, y, size, route.tile)
    return y


def gradient_part(
    dy: Tensor, w_down: Tensor, pre: Tensor, activation: str, size: Size, route: Route
) -> Tensor:
    """The gradients of gate and up, side by side, (m, 2h); `pre` is as `saved_as` says."""
    grads = torch.empty_like(pre)
    activation = "factors" if saved_as(pre, size) == "factors" else activation
    kind, tile = route
    if tile is not None and kind == "pingpong" and HAVE_GLUON and takes_pingpong(dy, w_down, grads):
        gradient_pingpong(dy, w_down, pre, grads, activation, size, tile)
    elif tile is not None and kind == "tma" and takes_tma(dy, w_down, grads):
        gradient_tma(dy, w_down, pre, grads, activation, size, tile)
    else:
        packed_backward(dy @ w_down, pre, grads, activation)
    return grads


def input_gradient(grads: Tensor, weights: Weights) -> Tensor:
    """`dgate Wg + dup Wu`, without a separate addition either way."""
    packed = stacked(weights.gate, weights.up)
    if packed is not None:
        return grads @ packed
    h = weights.gate.shape[0]
    return (grads[:, :h] @ weights.gate).addmm_(grads[:, h:], weights.up)


def stacked(gate: Tensor, up: Tensor) -> Tensor | None:
    """Both weights as one (2h, d) tensor, if up begins where gate ends; None otherwise."""
    h, d = gate.shape
    if up.data_ptr() - gate.data_ptr() != h * d * gate.element_size():
        return None
    if not (gate.is_contiguous() and up.is_contiguous()):
        return None
    base = gate._base  # of `gate, up = both.chunk(2)`: `both` itself, without a further view
    if base is not None and base is up._base and base.shape == (2 * h, d) and base.is_contiguous():
        return base
    # Neighbours by chance, in storages of their own, must not be joined.
    same = gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr()
    return gate.as_strided((2 * h, d), (d, 1)) if same else None
