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


Pays = Callable[[GatedNodes], bool]


class GatedPass(CustomGraphPass):
    """Replaces every gated MLP that `pays`; `found` are those that it saw, and what it did."""

    def __init__(self, pays: Pays) -> None:
        self.pays = pays
        self.found: list[tuple[GatedNodes, bool]] = []

    def __call__(self, graph: Graph) -> None:
        """Replace what there is in a graph."""
        for node in [*graph.nodes]:
            if (found := gated_at(node)) is not None:
                paid = self.pays(found)
                self.found.append((found, paid))
                if paid:
                    _replace(graph, found)

    def uuid(self) -> Any:
        """What compiled code is kept under: this file, and when it pays."""
        name = f"{self.pays.__module__}.{self.pays.__qualname__}"
        return get_hash_for_files((__file__,), name)


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
    hidden, wide = (_hint(size) for size in gate.shape)
    rows = 1
    for size in x.shape[:-1]:
        rows *= _hint(size)
    return plan(x.get_device(), x.dtype, (rows, wide, hidden), stacked=False) != ALL_LIBRARY


def _value(node: Node) -> torch.Tensor | None:
    value = node.meta.get("example_value", node.meta.get("val"))
    return value if isinstance(value, torch.Tensor) else None


def _hint(size: Any) -> int:
    """A size, also where it was compiled as dynamic."""
    return size if isinstance(size, int) else int(size.node.hint)


def gated_at(node: Node) -> GatedNodes | None:
    """The gated MLP whose result a node is, if nothing else reads what lies between."""
    down = _linear(node)
    middle = down[0] if down else None
    if down is None or middle is None or not _is(middle, _MUL) or len(middle.args) != 2:
        return None
    for act, other in (middle.args, middle.args[::-1]):
        name, up = _activation(act), _linear(other)
        gate = _linear(act.args[0]) if name else None
        if gate is None or up is None or gate[0] is not up[0]:
            continue
        between = middle, act, act.args[0], other
        if all(len(each.users) == 1 for each in between):
            return GatedNodes(gate[0], gate[1], up[1], down[1], name, (node, *between))
    return None


def _is(node: Any, targets: tuple[Any, ...]) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.target in targets


def _linear(node: Any) -> tuple[Node, Node] | None:
    """Input and weight of a linear layer without a bias."""
    if not _is(node, _LINEAR):
        return None
    given = dict(zip(("input", "weight", "bias"), node.args, strict=False)) | node.kwargs
    return None if given.get("bias") is not None else (given["input"], given["weight"])


def _activation(node: Any) -> str:
    """Our name of an activation; empty where the node is none."""
    if _is(node, _GELU):
        return "gelu_tanh" if node.kwargs.get("approximate") == "tanh" else "gelu_erf"
    return _ACTS[node.target] if _is(node, tuple(_ACTS)) else ""


def _replace(graph: Graph, found: GatedNodes) -> None:
    result = found.computed_by[0]
    with graph.inserting_before(result):
        node = graph.call_function(gated_mlp, found[:5])
    node.meta.update(result.meta)
    result.replace_all_uses_with(node)
    for each in found.computed_by:
        graph.erase_node(each)
