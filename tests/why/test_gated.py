"""Gated MLPs in compiled code: those of recorded runs, and graphs that only look like one."""

from __future__ import annotations

import pytest

from compiled_recordings import DATA, compiled
from foretrace.read.compiler.records import Compilation, FxGraph, GraphNode, KernelCall
from foretrace.read.compiler.records import NamedTensor as Tensor
from foretrace.why import explain
from foretrace.why.explained import gated_mlps
from foretrace.why.lines import lines
from foretrace.why.measured import Ran
from opened_traces import opened

LINEAR, GELU, MUL = "torch._C._nn.linear", "torch._C._nn.gelu", "operator.mul"
NOTHING = Ran(compiled("mlp"), None, None)


def test_the_mlp_of_a_recorded_run() -> None:
    run, trace = compiled("mlp"), opened(DATA / "mlp" / "trace.json.gz")
    why = explain(run, trace)
    (found,) = why.gated_mlps
    assert (found.activation, found.size) == ("gelu", (8192, 768, 3072))
    assert found.time_ns == sum(row.time_ns or 0 for row in why.kernels)
    (said,) = (line.text for line in lines(why) if line.label == "SWAP")
    assert "1 gated MLP (gelu, 8,192 rows, 768 to 3,072;" in said
    why.device = "AMD Instinct MI300X"
    assert not any(line.label == "SWAP" for line in lines(why))


def test_llama_has_one_in_each_layer() -> None:
    (each,) = compiled("llama_train").compilations
    found = [(row.activation, row.size) for row in gated_mlps(each, NOTHING)]
    assert found == [("silu", (2048, 768, 3072))] * 4


def _node(name: str, target: str, *inputs: str, shape: tuple[int | str, ...] = (4, 8)) -> GraphNode:
    return GraphNode(name, target, inputs, Tensor(name, "bf16", shape))


def _graph(*nodes: GraphNode, matmul: str = "extern_kernels.mm") -> Compilation:
    calls = tuple(
        KernelCall(matmul if node.target == LINEAR else "triton", node.target == LINEAR,
                   nodes=(node.name,))
        for node in nodes
    )  # fmt: skip
    decomposed = {node.name: (node.name,) for node in nodes}
    graphs = (FxGraph("dynamo", nodes), FxGraph("post_grad", nodes, graph=0))
    return Compilation("0/0", graphs=graphs, calls=calls, mappings=(decomposed,))


def _mlp(**changed: GraphNode) -> list[GraphNode]:
    nodes = {
        "gate": _node("gate", LINEAR, "x", "wg", shape=(2, 3, 16)),
        "up": _node("up", LINEAR, "x", "wu", shape=(2, 3, 16)),
        "act": _node("act", GELU, "gate"),
        "mul": _node("mul", MUL, "up", "act"),
        "down": _node("down", LINEAR, "mul", "wd", shape=(2, 3, 8)),
    }
    return [*(nodes | changed).values()]


@pytest.mark.parametrize(
    "changed",
    [
        {"gate": _node("gate", LINEAR, "x", "wg", "bias")},
        {"up": _node("up", LINEAR, "other", "wu")},
        {"act": _node("act", "torch.tanh", "gate")},
        {"mul": _node("mul", "operator.add", "act", "up")},
        {"down": _node("down", "torch.matmul", "mul", "wd")},
    ],
    ids=["bias", "another-input", "tanh", "add", "matmul"],
)
def test_what_only_looks_like_one(changed: dict[str, GraphNode]) -> None:
    assert not [*gated_mlps(_graph(*_mlp(**changed)), NOTHING)]


def test_one_that_the_pass_replaced_is_none() -> None:
    whole = _graph(*_mlp())
    ours = KernelCall("torch.ops.foretrace.gated_mlp", True, nodes=("gated_mlp",))
    part = Compilation("0/0", graphs=whole.graphs, calls=(ours,))
    assert not [*gated_mlps(part, NOTHING)]
