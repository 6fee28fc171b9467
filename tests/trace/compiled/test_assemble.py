"""Four recorded compiles, put together: every call has its nodes, lines and bytes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compiled_recordings import DATA, RUNS, compiled, logs, record
from foretrace import why
from foretrace.read.compiler import CompilerLogs, read
from foretrace.read.compiler.records import (
    Access,
    FxGraph,
    GraphNode,
    KernelCall,
    NamedTensor,
    SourceLine,
)
from foretrace.trace.compiled.assemble import _Pieces, assemble, by_compilation, graph_name, parts
from foretrace.trace.compiled.provenance import Matcher, Provenance, credited
from foretrace.trace.compiled.scheduler import parse_graph


@pytest.mark.parametrize("run", RUNS)
def test_every_call_has_nodes_lines_and_bytes(run: str) -> None:
    """Only a call with dynamic sizes has no bytes."""
    for each in compiled(run).compilations:
        assert each.calls
        kernels = {kernel.name: kernel for kernel in each.kernels}
        for part in parts(each):
            known = {node.name for node in part.post_grad(0)} | {
                node.name for node in part.post_grad(1)
            }
            for call in part.calls:
                assert call.sources, call.handle
                assert call.extern or kernels[call.kernel].code
                assert call.nodes, call.handle
                assert set(call.nodes) <= known
                sizes = [size for access in call.accesses for size in access.tensor.shape]
                assert call.bytes is not None or any(isinstance(size, str) for size in sizes)


@pytest.mark.parametrize("name", RUNS)
def test_calls_without_provenance_find_the_same_nodes(name: str) -> None:
    """The other records lead to what Inductor recorded itself, where it did."""
    records, texts = by_compilation(read(str(DATA / name)))
    for key in records:
        held = _Pieces(key, records[key], texts[key])
        for at, wrapper in enumerate(held.wrappers):
            if b"cppCodeToPost" not in wrapper.mappings:
                continue
            calls = [call for call in held.compilation().calls if call.graph == at]
            scheduled = [node for node in held.after if node.graph == at]
            matcher = Matcher(wrapper.code, wrapper.post_grad, scheduled, held.origins[at])
            found = matcher.matched([replace(call, nodes=()) for call in calls])
            assert [_handle_and_nodes(call) for call in found] == [
                _handle_and_nodes(call) for call in calls
            ]


def _handle_and_nodes(call: KernelCall) -> tuple[str, set[str]]:
    """Provenance counts what attention reads, clones included, as part of it."""
    nodes = (
        {name for name in call.nodes if "attention" in name}
        if "attention" in call.kernel
        else set()
    )
    return call.handle, nodes or (set() if "attention" in call.kernel else set(call.nodes))


def test_forward_and_backward_are_two_parts() -> None:
    (llama,) = compiled("llama_train").compilations
    forward, backward = parts(llama)
    assert [graph_name(part) for part in (forward, backward)] == ["forward", "backward"]
    assert (len(forward.before), len(forward.after), len(forward.calls)) == (116, 85, 69)
    assert (len(backward.before), len(backward.after), len(backward.calls)) == (139, 123, 111)
    assert sum(each.times for each in llama.choices if not each.fused) == 534


def test_the_attempt_that_succeeded_counts() -> None:
    broken, rest = compiled("unfusable").compilations
    assert [each.source.place for each in broken.breaks] == ["record.py:52"]
    assert [len(each.code) for each in (broken, rest)] == [1, 1]
    assert rest.function
    assert rest.function.function == "torch_dynamo_resume_in_f_at_52"


def test_a_recompilation_names_the_sizes_that_caused_it() -> None:
    first, again = compiled("recompiles").compilations
    assert first.recompile == ()
    assert [(each.version, each.expected, each.actual) for each in again.recompile] == [
        ("0/0", "64", "32")
    ]


def test_a_structured_log_alone_says_what_is_missing() -> None:
    run = why.load(DATA / "mlp" / "torch_trace.log.gz")
    assert [words.partition(" (")[0] for words in run.lacks] == [
        "fusion reasons",
        "the scheduler's nodes",
    ]


def _twice(run: str) -> CompilerLogs:
    once = logs(run)
    return replace(once, records=[*once.records, *once.records])


def test_a_second_start_is_another_compilation() -> None:
    records, texts = by_compilation(_twice("recompiles"))
    assert list(records) == [(None, "0/0", 0), (None, "0/1", 0), (None, "0/0", 1), (None, "0/1", 1)]
    assert texts == {}  # a message does not say to which of the two it belongs
    run = assemble(_twice("recompiles"))
    assert [(each.id, len(each.code)) for each in run.compilations] == [
        ("0/0", 1), ("0/1", 1), ("0/0", 1), ("0/1", 1)
    ]  # fmt: skip


SEQUENTIAL = """
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 8]"):
        # No stacktrace found for following nodes
        relu: "f32[4, 8]" = torch.nn.functional.relu(L_x_)
        return (relu,)
"""


@pytest.mark.parametrize("where", ["site-packages", "dist-packages", "pytorch"])
def test_a_module_of_torch_has_the_line_that_calls_it(where: str) -> None:
    inner = f"/usr/lib/{where}/torch/_dynamo/external_utils.py"
    calls = {"filename": "train.py", "line": 5, "name": "<module>", "loc": "model(x)"}
    frames = [calls, {"filename": inner, "line": 67, "name": "inner"}]
    records = [
        record("dynamo_start", {"stack": frames}),
        record("dynamo_output_graph", {}, SEQUENTIAL),
        record(
            "compilation_metrics", {"co_filename": inner, "co_firstlineno": 67, "co_name": "inner"}
        ),
    ]
    (found,) = assemble(replace(logs("mlp"), records=records, texts=[])).compilations
    line = SourceLine("train.py", 5, "<module>", "model(x)")
    assert (found.function, found.graphs[0].nodes[0].source) == (line, line)


def test_a_library_call_performs_its_own_node() -> None:
    """Inductor lists a scatter with the kernel that copies its operand, and no handle for it."""
    source = {name: SourceLine("m.py", at) for at, name in enumerate(("mul", "scatter_add"), 3)}
    nodes = tuple(
        GraphNode(name, f"torch.ops.aten.{name}.default", source=line)
        for name, line in source.items()
    )
    graph, stored = FxGraph("post_grad", nodes), Access(NamedTensor("buf0"), "store", None)
    copy = KernelCall("cpp_fused_mul_0", False, "cpp_fused_mul_0:1", nodes=("scatter_add", "mul"))
    scatter = KernelCall("aten.scatter_reduce_.two", True, accesses=(stored,))
    calls = credited(Matcher("", graph, (), {}).matched([copy, scatter]), graph)
    assert [call.nodes for call in calls] == [("mul",), ("scatter_add",)]
    stacks = {copy.handle: tuple(f'  File "m.py", line {at}, in f\n' for at in (3, 4))}
    recorded = Provenance({copy.handle: copy.nodes}, stacks)
    lines = [[line.line for line in recorded.located(each, graph).sources] for each in calls]
    assert lines == [[3], [4]]


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
