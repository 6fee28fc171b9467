"""What ops would move one by one."""

from __future__ import annotations

from foretrace.analyze.why.kernels import Unfused
from foretrace.schema.compiler import Compilation, FxGraph, GraphNode, NamedTensor

ROW, MATRIX = 8 * 4, 4 * 8 * 4  # bytes of f32[8] and f32[4, 8]


def _node(name: str, target: str, inputs: str, *shape: int) -> GraphNode:
    return GraphNode(name, target, tuple(inputs.split()), NamedTensor(name, "f32", shape))


def _part(decompositions: dict[str, tuple[str, ...]], *nodes: GraphNode) -> Compilation:
    inputs = (NamedTensor("x", "f32", (4, 8)), NamedTensor("b", "f32", (8,)))
    ops = (
        _node("add", "operator.add", "x b", 4, 8),
        _node("gelu", "torch._C._nn.gelu", "add", 4, 8),
    )
    graphs = (FxGraph("dynamo", ops, inputs), FxGraph("post_grad", nodes, inputs))
    return Compilation("0/0", graphs=graphs, decompositions=decompositions)


NODES = (
    _node("expand", "torch.ops.aten.expand.default", "b", 4, 8),
    _node("add_1", "torch.ops.aten.add.Tensor", "x expand", 4, 8),
    _node("mul", "torch.ops.aten.mul.Tensor", "add_1 add_1", 4, 8),
    _node("erf", "torch.ops.aten.erf.default", "mul", 4, 8),
)
WHOLE = {"add": ("expand", "add_1"), "gelu": ("mul", "erf")}


def test_a_view_moves_nothing_and_is_read_once() -> None:
    found = Unfused(_part(WHOLE, *NODES)).traffic(("expand", "add_1"))
    assert found is not None
    assert found.nodes == MATRIX + ROW + MATRIX


def test_ops_count_where_all_of_them_is_inside() -> None:
    found = Unfused(_part(WHOLE, *NODES)).traffic(tuple(node.name for node in NODES))
    assert found is not None
    assert found.ops == (MATRIX + ROW + MATRIX) + 2 * MATRIX
    assert found.nodes == (2 * MATRIX + ROW) + 2 * MATRIX + 2 * MATRIX


def test_a_part_of_an_op_is_not_the_op() -> None:
    found = Unfused(_part(WHOLE, *NODES)).traffic(("mul",))
    assert found is not None
    assert found.ops is None
    assert found.nodes == 2 * MATRIX


def test_a_dynamic_size_is_not_known() -> None:
    node = GraphNode(
        "add_1", "torch.ops.aten.add.Tensor", ("x",), NamedTensor("add_1", "f32", ("s0",))
    )
    found = Unfused(_part({}, node)).traffic(("add_1",))
    assert found is not None
    assert found.nodes is None


def test_without_a_graph_there_is_no_answer() -> None:
    assert Unfused(Compilation("0/0")).traffic(("add",)) is None
