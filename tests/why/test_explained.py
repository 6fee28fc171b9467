"""The document: traffic of ops one by one, kernels by name, guards over all recompilations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import foretrace
from compiled_recordings import DATA, compiled
from foretrace import why
from foretrace.read.compiler import read
from foretrace.read.compiler.records import (
    Compilation,
    FxGraph,
    GraphNode,
    GuardFailure,
    GuardTally,
    NamedTensor,
)
from foretrace.trace.compiled.assemble import assemble
from foretrace.why.explained import Unfused, strided_views, tallies

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


def test_bytes_of_dynamic_sizes_are_as_certain_as_those_of_their_runs() -> None:
    """The code alone does not say how many: the sizes of the runs do."""
    found = why.explain(compiled("recompiles"), foretrace.open(DATA / "recompiles/trace.json.gz"))
    dynamic = [row for row in found.kernels if row.run_bytes and row.bytes is None]
    assert dynamic
    assert {row.certainty for row in dynamic} == {"exact"}


def test_without_a_graph_there_is_no_answer() -> None:
    assert Unfused(Compilation("0/0")).traffic(("add",)) is None


def test_a_guard_is_counted_over_all_recompilations() -> None:
    first = GuardFailure("0/0", "x.size", "x", "64", "32", "size at index 0")
    second = GuardFailure("0/1", "x.size", "x", "64", "8", "size at index 0")
    runs = [Compilation("0/0"), Compilation("0/1", recompile=(first,))]
    assert tallies([*runs, Compilation("0/2", recompile=(second, first))]) == (
        GuardTally("size at index 0", "x", ("0/1", "0/2"), ("64",), ("32", "8")),
    )


SCRIPT = """
import torch
weight, x = torch.randn(64, 32), torch.randn(16, 32)
transposed = x.t().contiguous().t()
def linear(x): return torch.nn.functional.linear(x, weight)
def dynamic(x): return torch.nn.functional.linear(x, weight)
def static(x): return torch.nn.functional.linear(x, weight)
for function, options in (
    (linear, {}),
    (dynamic, {"dynamic": True, "backend": "eager"}),
    (static, {"dynamic": False, "backend": "eager"}),
):
    run = torch.compile(function, **options)
    for each in (x, transposed, x, transposed):
        assert torch.allclose(run(each), function(each), atol=1e-4)
"""


def test_the_weights_of_an_mlp_are_read_through_strides() -> None:
    (part,) = compiled("mlp").compilations
    gate, up, down = strided_views(part)
    assert (gate.source.shape, gate.source.stride) == ((3072, 768), (768, 1))
    assert (gate.result.shape, gate.result.stride) == ((768, 3072), (1, 768))
    assert [each.used_by for each in (gate, up, down)] == [
        ("extern_kernels.mm:1",), ("extern_kernels.mm:2",), ("extern_kernels.mm:4",)
    ]  # fmt: skip
    assert {each.layout for each in (gate, up, down)} == {"tn"}


def test_a_copy_is_no_proof() -> None:
    """`y.t().contiguous()` is computed: no call reads `y` under the strides of the view."""
    (view,) = strided_views(compiled("unfusable").compilations[0])
    assert (view.used_by, view.layout) == ((), "")
    assert view.line is not None
    assert view.line.line == 51


@pytest.mark.sweep
def test_a_compiled_linear_meets_other_strides(tmp_path: Path) -> None:
    """Torch compiles again for other strides, with `dynamic=True` too; then each has a version."""
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "log"
    environment = {
        **os.environ,
        "TORCH_TRACE": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    command = [sys.executable, str(script)]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, timeout=300)
    run = assemble(read(str(folder)))
    again = [each for each in run.compilations if each.recompile]
    assert len(run.compilations) == 6
    assert len(again) == 3
    words = [each.recompile[0].text for each in again]
    assert words[0] == words[2] == "tensor 'x' stride mismatch at index 0. expected 32, actual 1"
    assert words[1] == "tensor 'x' stride mismatch at index 1. expected 1, actual 16"
    assert [each.recompile[0].what for each in again][:2] == [
        "stride at index 0",
        "stride at index 1",
    ]
    first, second = run.compilations[:2]
    (view,) = strided_views(first)
    assert view.source == NamedTensor(view.source.name, "f32", (64, 32), (32, 1), "cpu")
    assert view.result == NamedTensor("permute", "f32", (32, 64), (1, 32), "cpu")
    assert (view.layout, strided_views(second)[0].layout) == ("tn", "tt")
