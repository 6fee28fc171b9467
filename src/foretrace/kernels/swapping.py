# mypy: disable-error-code="misc"
"""`swap(model)`: the gated MLPs of a loaded model run on our kernels, in place.

A gated MLP is found by what it computes, not by its name: small weights take the place of its own,
and its output is compared with `down(act(gate(x)) * up(x))` for every activation and order. Only
`forward` changes: parameters, state dicts, hooks and classes stay as they are. Weights of gate and
up come to lie one below the other in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import permutations, product
from types import MethodType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from foretrace.kernels.glu import ACTIVATIONS, gated, gated_reference
from foretrace.kernels.mlp import gated_mlp
from foretrace.kernels.module import stack

_WIDE, _DEEP = 4, 6  # of the weights that are tried: two sizes that differ
_FAR = 1e4  # also tried: a clamp shows only far from zero
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

    def layers(self, module: nn.Module) -> list[nn.Linear]:
        """Gate, up and down."""
        return [getattr(module, name) for name in (self.gate, self.up, self.down)]

    def halves(self, gate: Tensor, up: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
        """Gate and up, of one tensor where one layer holds both."""
        if self.gate != self.up:
            return gate, up
        first, second = gate.chunk(2, dim)
        return (second, first) if self.up_first else (first, second)

    def stands(self, module: nn.Module) -> bool:
        """Whether its layers are still those that were found: adapters and hooks come later."""
        own = module._modules  # attributes of a module take ten times as long
        if self.drop and type(own[self.drop]) is not nn.Dropout:
            return False
        linears = type(own[self.gate]) is type(own[self.up]) is type(own[self.down]) is nn.Linear
        return linears and not any(_changed(each) for each in own.values() if each is not None)

    def forward(self, module: nn.Module, x: Tensor) -> Tensor:
        """The MLP: whole in one call where nothing stands between its matmuls."""
        gate, up, down = self.layers(module)
        drop = getattr(module, self.drop) if self.drop else None
        dropping = drop is not None and drop.training and drop.p > 0
        biased = any(each.bias is not None for each in (gate, up, down))
        if not (biased or dropping):
            weights = *self.halves(gate.weight, up.weight), down.weight
            return gated_mlp(x, *weights, self.activation)
        both = gate(x)
        middle = gated(*self.halves(both, both if gate is up else up(x), -1), self.activation)
        out: Tensor = down(drop(middle) if dropping and drop is not None else middle)
        return out


class Swapped:
    """What `swap` did: `replaced` by name, `left` with the reason; `undo` takes it back."""

    def __init__(self, replaced: dict[str, GatedForward], left: dict[str, str]) -> None:
        self.replaced, self.left = replaced, left
        self._forwards: list[MethodType] = []

    def undo(self) -> None:
        """Every module computes as it did before; what somebody put around it since then stays."""
        for forward in self._forwards:
            own = vars(forward.__self__)
            if own.get("forward") is forward:
                del own["forward"]
        self._forwards.clear()

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
        if found.gate != found.up:
            stack(*found.layers(module)[:2])
        module.forward = MethodType(_forward(found, type(module).forward), module)
        done._forwards.append(module.forward)
    return done


def _forward(how: GatedForward, own: Callable[..., Any]) -> Callable[..., Any]:
    """Ours for one tensor; the module's own for other arguments, and where its layers changed."""

    @wraps(own)
    def forward(module: nn.Module, *given: Any, **named: Any) -> Any:
        if len(given) == 1 and not named and how.stands(module):
            return how.forward(module, given[0])
        return own(module, *given, **named)

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
    same = (gate.in_features, gate.out_features) == (up.in_features, up.out_features)
    return same and (down.out_features, down.in_features) == (gate.in_features, hidden)


def _unfit(module: nn.Module) -> str:
    """Why a module stays as it is, though its shapes fit; empty where nothing speaks against it."""
    replaced = vars(module).get("forward")  # a pickle brings the class's own
    if replaced is not None and getattr(replaced, "__func__", None) is not type(module).forward:
        return "its forward was replaced before"
    if [*module.buffers()]:
        return "it has buffers"
    changed = ((name, _changed(each)) for name, each in module.named_modules() if name)
    return next((f"{name} {how}" for name, how in changed if how), "")


def _changed(layer: nn.Module) -> str:
    """What a layer does besides computing as `nn` says; empty where nothing."""
    if isinstance(layer, nn.Linear):
        weight = layer._parameters.get("weight")
        if type(layer) is not nn.Linear:
            return f"is a {type(layer).__name__}"
        if type(weight) is not nn.Parameter and type(weight) is not Tensor:
            return f"has a weight that is a {type(weight).__name__}"
    if "forward" in layer.__dict__:
        return "has a forward of its own"
    after = layer._forward_hooks or layer._backward_hooks
    return "has hooks" if after or layer._forward_pre_hooks or layer._backward_pre_hooks else ""


def recognised_mlp(module: nn.Module) -> GatedForward | None:
    """How a module computes its gated MLP; None where it computes something else."""
    roles = _roles(module)
    drops = [name for name, each in module.named_children() if type(each) is nn.Dropout]
    if not roles or len(drops) > 1:
        return None
    small = _small(_linears(module), roles)
    x = torch.cat([_random(3, _WIDE), _FAR * _random(3, _WIDE)])[None]
    try:
        outs = [_tried(module, small, x, training=training) for training in (False, True)]
    except Exception:  # noqa: BLE001 - the module's own code may raise anything on other sizes
        return None
    if not all(isinstance(out, Tensor) and out.shape == x.shape for out in outs):
        return None

    def linear(name: str, of: Tensor) -> Tensor:
        return F.linear(of, small[f"{name}.weight"], small.get(f"{name}.bias"))

    for order, activation, up_first in product(roles, ACTIVATIONS, (False, True)):
        if up_first and order[0] != order[1]:
            continue
        how = GatedForward(*order, activation, "".join(drops), up_first)
        gate, up = how.halves(linear(how.gate, x), linear(how.up, x), -1)
        middle = gated_reference(gate, up, how.activation)
        wanted = linear(how.down, _masked(middle) if how.drop else middle)
        if all(torch.allclose(out, wanted, rtol=_CLOSE, atol=_CLOSE) for out in outs):
            return how
    return None


def _tried(module: nn.Module, small: dict[str, Tensor], x: Tensor, *, training: bool) -> Any:
    """Its output with small weights; a known mask stands for a dropout, which shows its place."""
    modes = [(each, each.training) for each in module.modules()]
    drops = [each for each in module.children() if type(each) is nn.Dropout]
    try:
        module.train(training)
        for each in drops:
            each.forward = _masked
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            return functional_call(module, small, (x,))
    finally:
        for each in drops:
            del each.forward
        for each, was in modes:
            each.training = was


def _masked(values: Tensor) -> Tensor:
    return values * torch.linspace(1, 2, values.numel(), dtype=values.dtype).view(values.shape)


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
