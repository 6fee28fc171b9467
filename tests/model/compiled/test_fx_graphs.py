"""FX graphs as torch prints them, of several versions."""

from __future__ import annotations

import pytest

from foretrace.model.compiled.graphs import parse_graph, source_line, tensor
from foretrace.schema.compiler import NamedTensor, SourceLine

DYNAMO = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "bf16[s77, 128][128, 1]cuda:0", s77: "Sym(s77)"):
        l_x_ = L_x_

        # File: /home/user/model.py:27 in forward, code: return F.gelu(self.gate(x)) * self.up(x)
        linear: "bf16[s77, 128][128, 1]cuda:0" = torch._C._nn.linear(l_x_, l_x_, None);  l_x_ = None
        mul: "bf16[s77, 128][128, 1]cuda:0" = linear * s77
        view = mul.view(-1, 3);  mul = None

        # No stacktrace found for following nodes
        sort = torch.ops.aten.sort.default(view);  view = None
        getitem: "f32[]" = sort[0];  sort = None
        return (getitem, linear)

class body(torch.nn.Module):
    def forward(self, a):
        b = a + 1
        return b
"""

JOINT = """
class joint_helper(torch.nn.Module):
    def forward(
        self,
        primals_1: "f32[4, 8][8, 1]cpu",  # PlainAOTInput(idx=0)
        primals_2: "f32[8][1]cpu",  # PlainAOTInput(idx=1)
    ):
         # File: model.py:3, code: y = x + 1
        add: "f32[4, 8]" = torch.ops.aten.add.Tensor(primals_1, 1)
        this line is not Python = (
        mm: "f32[4, 4]" = torch.ops.aten.mm.default(add, primals_1)
        return pytree.tree_unflatten([
            mm,  # PlainAOTOutput(idx=0)
            add,  # SavedForBackwardsAOTOutput(idx=0)
        ], self._out_spec)
"""


def test_nodes_with_their_lines() -> None:
    graph = parse_graph(DYNAMO, "dynamo")
    line = SourceLine(
        "/home/user/model.py", 27, "forward", "return F.gelu(self.gate(x)) * self.up(x)"
    )
    assert [(node.name, node.target, node.inputs) for node in graph.nodes] == [
        ("linear", "torch._C._nn.linear", ("l_x_",)),
        ("mul", "operator.mul", ("linear", "s77")),
        ("view", "Tensor.view", ("mul",)),
        ("sort", "torch.ops.aten.sort.default", ("view",)),
        ("getitem", "operator.getitem", ("sort",)),
    ]
    assert [node.source for node in graph.nodes] == [line, line, line, None, None]
    assert graph.nodes[0].tensor == NamedTensor("linear", "bf16", ("s77", 128), (128, 1), "cuda:0")
    assert graph.nodes[3].tensor is None
    assert {each.name for each in graph.inputs} == {"l_x_", "s77"}
    assert graph.outputs == ("getitem", "linear")


def test_inputs_and_outputs_one_to_a_line() -> None:
    graph = parse_graph(JOINT, "joint")
    assert [each.name for each in graph.inputs] == ["primals_1", "primals_2"]
    assert [node.name for node in graph.nodes] == ["add", "mm"]
    assert graph.nodes[0].source == SourceLine("model.py", 3, "", "y = x + 1")
    assert graph.outputs == ("mm", "add")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("bf16[64, 128][128, 1]cuda:0", ("bf16", (64, 128), (128, 1), "cuda:0")),
        ("f32[]", ("f32", (), (), "")),
        ("i64[][]cpu", ("i64", (), (), "cpu")),
        ("f32[s0 + 1, 2*s1]", ("f32", ("s0 + 1", "2*s1"), (), "")),
    ],
)
def test_tensors(text: str, wanted: tuple[object, ...]) -> None:
    made = tensor("a", text)
    assert made is not None
    assert (made.dtype, made.shape, made.stride, made.device) == wanted
    assert tensor("a", "Sym(s77)") is None


def test_comments() -> None:
    assert source_line("# File: C:\\\\a.py:7 in f, code: x") == SourceLine(
        "C:\\\\a.py", 7, "f", "x"
    )
    assert source_line("# File: a.py, code: x") is None
    assert source_line(
        "# Annotation: {'stage': 0} File: a.py:7 in f, code: y, code: z"
    ) == SourceLine("a.py", 7, "f", "y, code: z")


def test_every_prefix_is_read() -> None:
    for text in (DYNAMO, JOINT):
        for end in range(0, len(text), 3):
            parse_graph(text[:end], "dynamo")
