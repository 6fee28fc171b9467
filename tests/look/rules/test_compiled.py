"""What the rules say where the compiler's records are beside the trace."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from foretrace.look.documents import Finding
from foretrace.look.rules import run_all
from foretrace.trace.trace import Trace
from opened_traces import opened

COMPILED = Path(__file__).parents[2] / "data" / "compile"


@cache
def _trace(name: str) -> Trace:
    return opened(COMPILED / name / "trace.json.gz")


@cache
def _findings(name: str) -> list[Finding]:
    return run_all(_trace(name))


def _said(name: str, rule: str) -> list[Finding]:
    return [one for one in _findings(name) if one.rule == rule]


def test_no_rule_fails() -> None:
    for name in ("mlp", "unfusable", "recompiles", "llama_train"):
        assert [one for one in _findings(name) if one.state == "crashed"] == []


def test_a_graph_break_parts_two_kernels() -> None:
    broken = next(one for one in _said("unfusable", "compiled_apart") if one.fix)
    assert broken.title == (
        "triton softmax+add+clone+cumsum+exp+3 more and triton add+amax+mul are separate: "
        "graph break at record.py:52"
    )
    assert 0 < (broken.at_most_ns or 0) < 22_000  # of both kernels, per step
    assert broken.fix == "remove the graph break at record.py:52"
    assert "Call to `torch._dynamo.graph_break()`" in broken.detail
    [line] = broken.evidence["breaks"]
    assert line["line"] == "record.py:52"


def test_neighbours_have_their_reason_and_its_cost() -> None:
    [pair] = _said("mlp", "compiled_apart")
    assert pair.title == "mm and triton gelu+mul are separate: a library kernel (extern)"
    assert pair.evidence["count"] == 4
    assert pair.fix == ""
    gpu = _trace("mlp").gpu
    fused = gpu.length[gpu.is_kernel].sum() / 3  # of a step
    assert 0 < (pair.at_most_ns or 0) < fused


def test_a_recompilation_has_the_guard_that_failed() -> None:
    [again] = _said("recompiles", "recompilation")
    assert again.detail.endswith("Recompiled: 0/1 because size at index 0 of x is 32, not 64.")
    assert again.evidence["reasons"] == {"0/1": "size at index 0 of x is 32, not 64"}


def test_generated_kernels_have_ops_and_lines_of_the_program() -> None:
    [made] = _said("mlp", "inductor_fusions")
    assert "gelu and mul from record.py:27 (pointwise)" in made.detail
    assert made.detail.endswith("The ops are from the compiler's records.")
