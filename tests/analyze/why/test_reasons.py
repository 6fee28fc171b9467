"""What was not fused in the recorded runs, why, and what it costs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

import foretrace
from foretrace.analyze.why.graph_breaks import across_breaks
from foretrace.analyze.why.measured import Measured, Ran
from foretrace.analyze.why.not_fused import grouped, not_fused
from foretrace.analyze.why.refusals import REASONS, WORDS, code
from foretrace.schema.compiler import Compilation, FusionChoice, Separation
from model.compiled.recorded import DATA, compiled, joined

RUNS = ("mlp", "unfusable", "recompiles", "llama_train")
MIB = 1 << 20


@cache
def measured(run: str) -> Measured | None:
    """What the recorded trace says about the calls of a run."""
    compiler, trace = compiled(run), foretrace.open(DATA / run / "trace.json.gz")
    return Ran(compiler, trace, joined(compiler, trace)).measured


def _part(run: str, compile_id: str) -> Compilation:
    return next(each for each in compiled(run).compilations if each.id == compile_id)


def _pairs(found: tuple[Separation, ...]) -> dict[tuple[str, str], Separation]:
    return {(each.a.rpartition(":")[2], each.b.rpartition(":")[2]): each for each in found}


def test_the_gemms_around_the_activation_of_an_mlp() -> None:
    found = _pairs(not_fused(_part("mlp", "0/0"), measured("mlp")))
    assert set(found) == {("1", "2"), ("1", "3"), ("2", "3"), ("3", "4")}
    assert {each.reason for each in found.values()} == {"extern"}
    gate = found["1", "3"]
    assert gate.shared[0].shape == (8192, 3072)
    assert gate.bytes == 2 * 48 * MIB  # written once, read once
    assert (gate.a_target, gate.b_kind) == ("extern_kernels.mm", "pointwise")
    both = found["1", "2"]
    assert (both.produced, both.bytes) == (False, 12 * MIB)  # x is read twice
    assert gate.sources[0].line == 27


def test_nodes_of_one_kernel_are_not_apart() -> None:
    """A C++ kernel runs several scheduler nodes, one after another."""
    part = _part("unfusable", "1/0")
    sort, partial, total, last = part.calls
    one = replace(partial, accesses=partial.accesses + total.accesses)
    found = not_fused(replace(part, calls=(sort, one, last)))
    assert all(each.a_call != each.b_call for each in found)
    named = [(each.a, each.b) for each in found]
    assert len(named) == len(set(named)) == len(not_fused(part)) - 1


def test_534_refusals_have_plain_reasons() -> None:
    part = _part("llama_train", "0/0")
    apart = not_fused(part, measured("llama_train"))
    groups = grouped(part, apart, measured("llama_train"))
    assert len(groups) <= 12
    assert sum(group.lines for group in groups) == 534
    assert sum(group.pairs for group in groups) == sum(not each.fused for each in part.choices)
    assert sum(group.separations for group in groups) == len(apart)
    assert {group.reason for group in groups} <= set(REASONS)
    lines = {group.reason: group.lines for group in groups}
    assert lines == {"extern": 0, "between": 249, "sizes": 203, "order": 79, "mutation": 3}
    assert all(each.a_call is not None and each.b_call is not None for each in apart)


@pytest.mark.parametrize("run", RUNS)
def test_no_saving_is_larger_than_the_kernels(run: str) -> None:
    for part in compiled(run).compilations:
        apart = not_fused(part, measured(run))
        for each in apart:
            whole = [
                measured(run).whole(part.calls[at]) for at in (each.a_call or 0, each.b_call or 0)
            ]
            assert (each.a_ns or 0) <= whole[0]
            assert (each.b_ns or 0) <= whole[1]
        every = sum(measured(run).whole(call) for call in part.calls)
        for group in grouped(part, apart, measured(run)):
            assert (group.at_most_ns or 0) <= every


def test_inductor_says_no_shared_data_of_a_buffer_in_another_order() -> None:
    found = _pairs(not_fused(_part("unfusable", "1/0")))
    sums = found["2", "3"]
    assert (sums.reason, sums.inductor, sums.refusals) == ("order", "no shared data", 3)
    assert sums.a_index == "c0, {c0: 8192}"
    assert sums.b_index == "c0 + 1024*c1, {c0: 1024, c1: 8}"
    assert found["3", "4"].reason == "sizes"
    assert (found["3", "4"].a_sizes, found["3", "4"].b_sizes) == ((1024, 8), (1024, 1024))
    sort = found["1", "4"]
    assert (sort.reason, sort.a_target) == ("extern", "torch.ops.aten.sort.stable")


def test_a_graph_break_between_softmax_and_sum() -> None:
    found = across_breaks(compiled("unfusable"), measured("unfusable"))
    assert [each.shared[0].name for each in found] == ["z", "s"]
    for each in found:
        assert each.reason == "graph_break"
        assert each.stopped_at is not None
        assert (each.stopped_at.line, each.compilation, each.b_compilation) == (52, "0/0", "1/0")
        assert each.bytes == 2 * 4 * MIB
        assert {50, 51, 53} <= {line.line for line in each.sources}
    assert across_breaks(compiled("mlp")) == ()


def test_both_sides_of_a_branch_follow_its_graph_break() -> None:
    run, rest = compiled("unfusable"), _part("unfusable", "1/0")
    others = [replace(rest, id=name) for name in ("2/0", "2/1")]  # the last for other sizes
    found = across_breaks(replace(run, compilations=(*run.compilations, *others)))
    assert [each.b_compilation for each in found] == ["1/0", "1/0", "2/0", "2/0"]


def test_dynamic_shapes_have_a_time_and_no_bytes() -> None:
    found = not_fused(_part("recompiles", "0/1"), measured("recompiles"))
    assert {each.bytes for each in found} == {None}
    assert all(each.at_most_ns for each in found)


@pytest.mark.parametrize(("run", "compile_id"), [("mlp", "0/0"), ("unfusable", "1/0")])
def test_without_the_log_text_the_wrapper_shows_the_same_neighbours(
    run: str, compile_id: str
) -> None:
    part = _part(run, compile_id)
    bare = replace(part, before=(), after=(), choices=())
    told, seen = not_fused(part), not_fused(bare)
    assert [(each.a, each.b, each.bytes) for each in told] == [
        (each.a, each.b, each.bytes) for each in seen
    ]
    assert {each.reason for each in seen} <= {"extern", "between", "not_recorded"}
    assert {each.inductor for each in seen} == {""}


def test_llama_without_the_log_text() -> None:
    part = _part("llama_train", "0/0")
    bare = not_fused(replace(part, before=(), after=(), choices=()))
    told = {(each.graph, each.a, each.b) for each in not_fused(part)}
    seen = {(each.graph, each.a, each.b) for each in bare}
    assert len(told & seen) / len(told | seen) > 0.95


def test_every_refusal_of_this_torch_has_a_reason() -> None:
    """The words in the sources of torch, against the table."""
    torch = pytest.importorskip("torch")
    folder = Path(torch.__file__).parent / "_inductor"
    text = "\n".join(
        (folder / name).read_text() for name in ("scheduler.py", "choices.py", "codegen/simd.py")
    )
    words = re.findall(r'(?:why|WhyNoFuse\(node1, node2\))\(\s*"([^"]+)"', text)
    assert len(words) > 40
    assert [word for word in words if not any(part in word for part, _ in WORDS)] == []


def test_a_dozen_reasons() -> None:
    assert len(REASONS) == 12
    assert {reason for _, reason in WORDS} <= set(REASONS)


def test_words_that_nobody_knows() -> None:
    assert code("a reason of torch 3") == "other"
    part = Compilation("0/0", choices=(FusionChoice("op1", "op2", False, "a new reason", 2),))
    (group,) = grouped(part, ())
    assert (group.reason, group.lines, group.bytes) == ("other", 2, None)
