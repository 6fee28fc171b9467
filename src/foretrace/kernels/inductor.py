# mypy: disable-error-code="misc"
"""A pass for Inductor: gated MLPs of a compiled model become `foretrace::gated_mlp` where it pays.

    from foretrace.kernels import inductor

    inductor.enable()               # before torch.compile compiles; off by default
    model = torch.compile(model)
    inductor.disable()

The pass sees the graph before autograd, so that forward and backward are replaced together. It
looks for `linear(act(linear(x, gate)) * linear(x, up), down)` without biases, and asks the table of
`routes` whether one of our kernels is faster than the library there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

from foretrace.kernels.mlp import gated_mlp
from foretrace.kernels.routes import ALL_LIBRARY, plan
from foretrace.kernels.support import why_not

_LINEAR = (F.linear, torch._C._nn.linear)
_MUL = (operator.mul, operator.imul, torch.mul)
_GELU = (F.gelu, torch._C._nn.gelu)
_ACTS: dict[Any, str] = {
    F.silu: "silu",
    torch._C._nn.silu: "silu",
    F.relu: "relu",
    torch.relu: "relu",
}


class GatedNodes(NamedTuple):
    """A gated MLP in a graph: its inputs, and the nodes that compute it, the last one first."""

    x: Node
    gate: Node
    up: Node
    down: Node
    activation: str
    computed_by: tuple[Node, ...]


class SeenMlp(NamedTuple):
    """A gated MLP that the pass saw: its activation, its weight's shape, and what was done."""

    activation: str
    gate: tuple[int, ...]
    replaced: bool


Pays = Callable[[GatedNodes], bool]


class GatedPass(CustomGraphPass):
    """Replaces every gated MLP that `pays`; `seen` are those that it saw, and what it did.

    Inductor copies its settings, and this pass with them: it holds no nodes.
    """

    def __init__(self, pays: Pays) -> None:
        self.pays = pays
        self.seen: list[SeenMlp] = []

    def __call__(self, graph: Graph) -> None:
        """Replace what there is in a graph."""
        for node in [*graph.nodes]:
            if (found := gated_at(node)) is not None:
                paid = self.pays(found)
                gate = _value(found.gate)
                shape = () if gate is None else tuple(map(int, gate.shape))
                self.seen.append(SeenMlp(found.activation, shape, paid))
                if paid:
                    _replace(graph, found)

    def uuid(self) -> Any:
        """What compiled code is kept under: this file, and when it pays."""
        name = getattr(self.pays, "__qualname__", repr(self.pays))
        return get_hash_for_files((__file__,), f"{self.pays.__module__}.{name}")


def enable(pays: Pays | None = None) -> GatedPass:
    """Replace gated MLPs in what torch.compile compiles from now on; see `pays_here`."""
    if not isinstance(config.pre_grad_custom_pass, GatedPass | None):
        raise ValueError("torch._inductor.config.pre_grad_custom_pass is set to another pass")
    config.pre_grad_custom_pass = found = GatedPass(pays or pays_here)
    return found


def disable() -> None:
    """Compile as without us from now on."""
    if isinstance(config.pre_grad_custom_pass, GatedPass):
        config.pre_grad_custom_pass = None


def pays_here(found: GatedNodes) -> bool:
    """Whether the table has a kernel of ours that beats the library at this size, on this card."""
    x, gate = (_value(node) for node in (found.x, found.gate))
    if x is None or gate is None or why_not(x.device, x.dtype) is not None:
        return False
    hidden, wide, *rows = (_hint(size) for size in (*gate.shape, *x.shape[:-1]))
    size = prod(rows), wide, hidden
    return all(size) and plan(x.get_device(), x.dtype, size, stacked=False) != ALL_LIBRARY


def _value(node: Node) -> torch.Tensor | None:
    value = node.meta.get("example_value", node.meta.get("val"))
    return value if isinstance(value, torch.Tensor) else None


def _hint(size: Any) -> int:
    """A size, also where it was compiled as dynamic; 0 where only a run knows it."""
    return size if isinstance(size, int) else int(size.node.hint or 0)


def gated_at(node: Node) -> GatedNodes | None:
    """The gated MLP whose result a node is, if nothing else reads or runs between its parts."""
    down = _linear(node)
    middle = down[0] if down else None
    if down is None or middle is None or not _is(middle, _MUL) or middle.kwargs:
        return None
    for act, other in (middle.args, middle.args[::-1]):
        name, before = _activation(act)
        gate, up = _linear(before), _linear(other)
        if gate is None or up is None or gate[0] is not up[0]:
            continue
        between = middle, act, before, other
        found = GatedNodes(gate[0], gate[1], up[1], down[1], name, (node, *between))
        if all(len(each.users) == 1 for each in between) and _fits(found) and _adjoin(found):
            return found
    return None


def _fits(found: GatedNodes) -> bool:
    """Whether the weights have the shapes of an MLP: `mul` also takes an up that it repeats."""
    shapes = [value.shape for node in found[1:4] if (value := _value(node)) is not None]
    return len(shapes) == 3 and shapes[0] == shapes[1] == shapes[2][::-1]


def _adjoin(found: GatedNodes) -> bool:
    """Whether nothing runs between the parts: this graph may change a tensor in place, and switch
    gradients and autocast on and off.
    """
    node, *waiting = found.computed_by
    while waiting:
        node = node.prev
        if node in waiting:
            waiting.remove(node)
        elif node.op not in ("get_attr", "placeholder"):
            return False
    return True


def _is(node: Any, targets: tuple[Any, ...]) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.target in targets


def _linear(node: Any) -> tuple[Node, Node] | None:
    """Input and weight of a linear layer without a bias."""
    if not _is(node, _LINEAR):
        return None
    given = dict(zip(("input", "weight", "bias"), node.args, strict=False)) | node.kwargs
    return None if given.get("bias") is not None else (given["input"], given["weight"])


def _activation(node: Any) -> tuple[str, Any]:
    """Our name of an activation, and what it takes; empty where the node is none."""
    if not _is(node, (*_GELU, *_ACTS)):
        return "", None
    taken = node.args[0] if node.args else node.kwargs.get("input")
    gelu = "gelu_tanh" if node.kwargs.get("approximate") == "tanh" else "gelu_erf"
    return _ACTS.get(node.target, gelu), taken


def _replace(graph: Graph, found: GatedNodes) -> None:
    result = found.computed_by[0]
    with graph.inserting_before(result):
        node = graph.call_function(gated_mlp, found[:5])
    node.meta.update(result.meta)
    result.replace_all_uses_with(node)
    for each in found.computed_by:
        graph.erase_node(each)
