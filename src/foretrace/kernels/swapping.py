# mypy: disable-error-code="misc"
"""`swap(model)`: the gated MLPs of a loaded model run on our kernels, in place.

    from foretrace.kernels import swap

    swapped = swap(model)   # prints as what was replaced, and what was left and why
    swapped.undo()

A gated MLP is found by what it computes, not by its name: small weights take the place of its own,
and its output is compared with `down(act(gate(x)) * up(x))` for every activation and order. Only
`forward` changes: parameters, state dicts, hooks and classes stay as they are. Weights of gate and
up come to lie one below the other in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations, product
from types import MethodType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.parametrize import is_parametrized

from foretrace.kernels.activations import ACTIVATIONS, gated_reference
from foretrace.kernels.glu import gated
from foretrace.kernels.mlp import gated_mlp
from foretrace.kernels.module import stack

_WIDE, _DEEP = 4, 6  # of the weights that are tried: two sizes that differ
_CLOSE = 1e-9  # float64; the two forms of GELU differ by 1e-4


class GatedForward(NamedTuple):
    """How a module computes its gated MLP, by the names of its linear layers.

    `gate` and `up` are one layer where it holds both: the first half is the gate's, or the second
    one's if `up_first`. `drop` is the dropout between.
    """

    gate: str
    up: str
    down: str
    activation: str
    drop: str = ""
    up_first: bool = False

    def weights(self, module: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
        """Of gate, up and down."""
        gate, up = module.get_submodule(self.gate), module.get_submodule(self.up)
        down: Tensor = module.get_submodule(self.down).weight
        first, second = self.halves(gate.weight, up.weight)
        return first, second, down

    def halves(self, gate: Tensor, up: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
        """Gate and up, of one tensor where one layer holds both."""
        if self.gate != self.up:
            return gate, up
        first, second = gate.chunk(2, dim)
        return (second, first) if self.up_first else (first, second)

    def forward(self, module: nn.Module, x: Tensor) -> Tensor:
        """The MLP: whole in one call where nothing stands between its matmuls."""
        gate, up = module.get_submodule(self.gate), module.get_submodule(self.up)
        down = module.get_submodule(self.down)
        drop = module.get_submodule(self.drop) if self.drop else None
        dropping = drop is not None and drop.training and drop.p > 0
        biased = any(each.bias is not None for each in (gate, up, down))
        if not (biased or dropping):
            return gated_mlp(x, *self.weights(module), self.activation)
        both = gate(x)
        middle = gated(*self.halves(both, both if gate is up else up(x), -1), self.activation)
        out: Tensor = down(drop(middle) if dropping and drop is not None else middle)
        return out


class Swapped:
    """What `swap` did: `replaced` by name, `left` with the reason; `undo` takes it back."""

    def __init__(self, replaced: dict[str, GatedForward], left: dict[str, str]) -> None:
        self.replaced, self.left = replaced, left
        self._modules: list[nn.Module] = []

    def undo(self) -> None:
        """Every module computes as it did before."""
        for module in self._modules:
            vars(module).pop("forward", None)
        self._modules.clear()

    def __repr__(self) -> str:
        count = len(self.replaced)
        lines = [f"{count} gated MLP{'s' * (count != 1)} replaced, {len(self.left)} left"]
        lines += [f"  {name}: {how.activation}" for name, how in self.replaced.items()]
        return "\n".join([*lines, *(f"  {name}: left, {why}" for name, why in self.left.items())])


def swap(model: nn.Module) -> Swapped:
    """Replace the gated MLPs of a model in place; the result says which, and undoes it."""
    done = Swapped({}, {})
    for name, module in model.named_modules():
        if not _roles(module):
            continue
        reason = _unfit(module)
        found = None if reason else recognised_mlp(module)
        if found is None:
            done.left[name] = reason or "it computes something else"
            continue
        done.replaced[name] = found
        done._modules.append(module)
        if found.gate != found.up:
            stack(module.get_submodule(found.gate), module.get_submodule(found.up))
        module.forward = MethodType(_forward(found), module)
    return done


def _forward(how: GatedForward) -> Callable[[nn.Module, Tensor], Tensor]:
    def forward(module: nn.Module, x: Tensor) -> Tensor:
        return how.forward(module, x)

    return forward


def _linears(module: nn.Module) -> dict[str, nn.Linear]:
    return {n: each for n, each in module.named_children() if isinstance(each, nn.Linear)}


def _roles(module: nn.Module) -> list[tuple[str, str, str]]:
    """Which of its linear layers can be gate, up and down, by their shapes; no other weights."""
    linears = _linears(module)
    held = [each for one in linears.values() for each in one.parameters()]
    if len(linears) not in (2, 3) or len(held) != len([*module.parameters()]):
        return []
    orders = [(order[0], order[-2], order[-1]) for order in permutations(linears)]
    return [order for order in orders if _fits(*(linears[name] for name in order))]


def _fits(gate: nn.Linear, up: nn.Linear, down: nn.Linear) -> bool:
    hidden = gate.out_features // 2 if gate is up else gate.out_features
    same = gate.weight.shape == up.weight.shape
    return same and tuple(down.weight.shape) == (gate.in_features, hidden)


def _unfit(module: nn.Module) -> str:
    """Why a module stays as it is, though its shapes fit; empty where nothing speaks against it."""
    if "forward" in vars(module):
        return "its forward was replaced before"
    for name, each in module.named_children():
        if isinstance(each, nn.Linear) and type(each) is not nn.Linear:
            return f"{name} is a {type(each).__name__}"
        if each._forward_hooks or each._forward_pre_hooks or each._backward_hooks:
            return f"{name} has hooks"
        if is_parametrized(each):
            return f"{name} is parametrized"
    return ""


def recognised_mlp(module: nn.Module) -> GatedForward | None:
    """How a module computes its gated MLP; None where it computes something else."""
    roles = _roles(module)
    drops = [name for name, each in module.named_children() if isinstance(each, nn.Dropout)]
    if not roles or len(drops) > 1:
        return None
    small, x = _small(_linears(module), roles), _random(1, 3, _WIDE)
    try:
        with torch.no_grad(), _evaluating(module):
            out = functional_call(module, small, (x,))
    except Exception:  # noqa: BLE001 - the module's own code may raise anything on other sizes
        return None
    if not isinstance(out, Tensor) or out.shape != x.shape:
        return None
    for how in _hypotheses(roles, "".join(drops)):
        if torch.allclose(out, _computed(how, small, x), rtol=_CLOSE, atol=_CLOSE):
            return how
    return None


def _hypotheses(roles: list[tuple[str, str, str]], drop: str) -> Iterator[GatedForward]:
    for order, activation in product(roles, ACTIVATIONS):
        yield GatedForward(*order, activation, drop)
        if order[0] == order[1]:
            yield GatedForward(*order, activation, drop, up_first=True)


def _computed(how: GatedForward, small: dict[str, Tensor], x: Tensor) -> Tensor:
    def linear(name: str, of: Tensor) -> Tensor:
        return F.linear(of, small[f"{name}.weight"], small.get(f"{name}.bias"))

    gate, up = how.halves(linear(how.gate, x), linear(how.up, x), -1)
    return linear(how.down, gated_reference(gate, up, how.activation))


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Its dropouts do nothing; the modes come back at the end."""
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for each, training in modes:
            each.training = training


def _random(*shape: int, seed: int = 0) -> Tensor:
    """The same numbers every time, without a touch of the program's generator."""
    numbers = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=numbers)


def _small(linears: dict[str, nn.Linear], roles: list[tuple[str, str, str]]) -> dict[str, Tensor]:
    """Small weights for each layer; square ones where the module's are."""
    gate, up, down = roles[0]
    deep = _WIDE if linears[down].in_features == linears[down].out_features else _DEEP
    small = {}
    for seed, (name, each) in enumerate(linears.items(), 1):
        rows = _WIDE if name == down else deep * (1 + (gate == up))
        columns = deep if name == down else _WIDE
        small[f"{name}.weight"] = _random(rows, columns, seed=seed)
        if each.bias is not None:
            small[f"{name}.bias"] = _random(rows, seed=-seed)
    return small
