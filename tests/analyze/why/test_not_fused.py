"""What was not fused in the recorded runs, why, what it costs, and what tuning made of it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

import foretrace
from foretrace.analyze.why.measured import Ran
from foretrace.analyze.why.not_fused import (
    REASONS,
    WORDS,
    NodeOrder,
    OtherRun,
    Separation,
    across_breaks,
    code,
    grouped,
    neighbours,
    not_fused,
    returns,
)
from foretrace.cli import main
from foretrace.model.compiled.assemble import assemble
from foretrace.read.compiler import read
from foretrace.schema.compiler import (
    Access,
    Compilation,
    CompilerRun,
    Elsewhere,
    FusionChoice,
    KernelCall,
    NamedTensor,
    SchedulerNode,
)
from model.compiled.recorded import DATA, RUNS, compiled, joined

MIB = 1 << 20
TUNED = Path(__file__).parents[2] / "data" / "tuned"


@cache
def measured(run: str) -> Ran:
    """What the recorded trace says about the calls of a run."""
    compiler, trace = compiled(run), foretrace.open(DATA / run / "trace.json.gz")
    return Ran(compiler, trace, joined(compiler, trace))


def _part(run: str, compile_id: str) -> Compilation:
    return next(each for each in compiled(run).compilations if each.id == compile_id)


def _pairs(found: tuple[Separation, ...]) -> dict[tuple[str, str], Separation]:
    return {(each.a.rpartition(":")[2], each.b.rpartition(":")[2]): each for each in found}


def test_the_gemms_around_the_activation_of_an_mlp() -> None:
    found = _pairs(not_fused(_part("mlp", "0/0"), measured("mlp")))
    assert set(found) == {("1", "2"), ("1", "3"), ("2", "3"), ("3", "4")}
    assert {each.code for each in found.values()} == {"extern"}
    gate = found["1", "3"]
    assert gate.shared[0].shape == (8192, 3072)
    assert gate.bytes == 2 * 48 * MIB  # written once, read once
    assert (gate.a_target, gate.b_target) == ("extern_kernels.mm", "")
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
    assert sum(group.refusals for group in groups) == 534
    assert sum(group.asked for group in groups) == sum(not each.fused for each in part.choices)
    assert sum(group.pairs for group in groups) == len(apart)
    assert {group.code for group in groups} <= set(REASONS)
    lines = {group.code: group.refusals for group in groups}
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
    assert (sums.code, sums.inductor, sums.refusals) == ("order", "no shared data", 3)
    assert sums.a_index == "c0, {c0: 8192}"
    assert sums.b_index == "c0 + 1024*c1, {c0: 1024, c1: 8}"
    assert found["3", "4"].code == "sizes"
    assert (found["3", "4"].a_sizes, found["3", "4"].b_sizes) == ((1024, 8), (1024, 1024))
    sort = found["1", "4"]
    assert (sort.code, sort.a_target) == ("extern", "torch.ops.aten.sort.stable")


def test_a_graph_break_between_softmax_and_sum() -> None:
    found = across_breaks(compiled("unfusable"), measured("unfusable"))
    assert [each.shared[0].name for each in found] == ["z", "s"]
    for each in found:
        assert each.code == "graph_break"
        assert each.stopped_at is not None
        assert (each.stopped_at.line, each.region, each.b_region) == (52, "0/0", "1/0")
        assert each.bytes == 2 * 4 * MIB
        assert {50, 51, 53} <= {line.line for line in each.sources}
    assert across_breaks(compiled("mlp")) == ()


def test_both_sides_of_a_branch_follow_its_graph_break() -> None:
    run, rest = compiled("unfusable"), _part("unfusable", "1/0")
    others = [replace(rest, id=name) for name in ("2/0", "2/1")]  # the last for other sizes
    found = across_breaks(replace(run, compilations=(*run.compilations, *others)))
    assert [each.b_region for each in found] == ["1/0", "1/0", "2/0", "2/0"]


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
    listed, seen = not_fused(part), not_fused(bare)
    assert [(each.a, each.b, each.bytes) for each in listed] == [
        (each.a, each.b, each.bytes) for each in seen
    ]
    assert {each.code for each in seen} <= {"extern", "between", "not_recorded"}
    assert {each.inductor for each in seen} == {""}


def test_llama_without_the_log_text() -> None:
    part = _part("llama_train", "0/0")
    bare = not_fused(replace(part, before=(), after=(), choices=()))
    listed = {(each.part, each.a, each.b) for each in not_fused(part)}
    seen = {(each.part, each.a, each.b) for each in bare}
    assert len(listed & seen) / len(listed | seen) > 0.95


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
    assert (group.code, group.refusals, group.bytes) == ("other", 2, None)


@pytest.fixture(scope="module")
def tuned() -> CompilerRun:
    return assemble(read(str(TUNED)))


def test_a_gemm_became_a_template_and_took_nothing_in(tuned: CompilerRun) -> None:
    """The last template lists the nodes of gelu, which another kernel computes for it."""
    (mine,) = compiled("mlp").compilations
    second = OtherRun(tuned)
    found = {(one.a[-1], one.b[-1]): second.made_of(one, mine) for one in not_fused(mine)}
    gelu = "triton_poi_fused__unsafe_view_gelu_mul_1"
    last = "triton_tem_fused__unsafe_view_gelu_mm_mul_t_view_2"
    up = Elsewhere(("triton_tem_fused_mm_t_view_0",), (gelu, last), "", "loops", "no shared data")
    assert found["2", "3"] == up
    down = found["3", "4"]
    assert down is not None
    assert (down.a, down.b, down.fused, down.reason) == ((gelu, last), (last,), "", "not_worth_it")


def test_kernels_that_the_other_run_fused(tuned: CompilerRun) -> None:
    mine = tuned.compilations[1]
    calls = (replace(mine.calls[0], kernel="both", nodes=("mm", "mul", "relu")),)
    fused = replace(mine, after=(), before=(), choices=(), calls=calls)
    found = OtherRun(replace(tuned, compilations=(fused,))).made_of(not_fused(mine)[0], mine)
    assert found == Elsewhere(("both",), ("both",), "both")


def test_another_program_says_nothing(tuned: CompilerRun) -> None:
    mine = compiled("unfusable").compilations[0]
    assert OtherRun(tuned).made_of(not_fused(mine)[0], mine) is None


def test_the_command_looks_into_the_other_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(DATA / "mlp"), "--not-fused", "--against", str(TUNED)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The other run keeps triton_tem_fused_mm_t_view_0 and triton_poi" in text
    assert 'apart: the same order, but other loop dimensions (Inductor: "no shared data")' in text


def test_refusals_around_templates(tuned: CompilerRun) -> None:
    mlp, relu = tuned.compilations
    found = {(one.a[-1], one.b[-1]): one for one in not_fused(mlp)}
    # the last choice was cuBLAS for the first: it was a template when Inductor asked
    assert found["1", "3"].a_target == "extern_kernels.mm"
    assert not found["2", "3"].a_target
    for same in (found["1", "3"], found["2", "3"]):
        assert (same.code, same.inductor) == ("loops", "no shared data")
        assert same.a_index == "3072*d0 + d1, {d0: 8192, d1: 3072}"
        assert same.b_index == "c0, {c0: 25165824}"
    # asked in both directions: "node1 must go before node2" is only the answer to the other one
    prologue = found["3", "4"]
    assert prologue.code == "not_worth_it"
    assert prologue.inductor.startswith("prologue fusion will not increase")
    assert prologue.refusals == 4
    (slower,) = not_fused(relu)
    assert (slower.code, slower.inductor) == ("not_worth_it", "benchmark: 1.927x slowdown")
    lines = sum(choice.times for choice in mlp.choices if not choice.fused)
    assert sum(group.refusals for group in grouped(mlp, not_fused(mlp))) == lines == 12


BIG = 1 << 20  # elements


def _tensor(name: str, size: int = BIG) -> NamedTensor:
    return NamedTensor(name, "f32", (size,), (1,))


def _node(
    name: str, reads: str, writes: str, kind: str = "pointwise", **more: object
) -> SchedulerNode:
    made = tuple(_tensor(each) for each in writes.split())
    read, written = tuple(reads.split()), tuple(writes.split())
    return SchedulerNode(name, kind, read, written, tensors=made, **more)  # type: ignore[arg-type]


def _found(*nodes: SchedulerNode) -> list[tuple[str, str, int | None, int | None]]:
    inputs = [_tensor("x"), _tensor("small", 8)]
    return [
        (each.a.name, each.b.name, each.written, each.read) for each in neighbours(nodes, inputs)
    ]


def test_a_buffer_is_written_for_nobody_else() -> None:
    assert _found(_node("op0", "x", "a"), _node("op1", "a", "b")) == [
        ("op0", "op1", 4 * BIG, 4 * BIG)
    ]


def test_a_second_reader_or_the_caller_needs_the_buffer() -> None:
    first = _node("op0", "x", "a")
    two = _found(first, _node("op1", "a", "b"), _node("op2", "a", "c"))
    assert two == [("op0", "op1", 0, 4 * BIG), ("op0", "op2", 0, 4 * BIG)]
    returned = _node("op0", "x", "a", returned=("a",))
    assert _found(returned, _node("op1", "a", "b")) == [("op0", "op1", 0, 4 * BIG)]


def test_an_input_that_several_read() -> None:
    nodes = [_node(f"op{at}", "x small", f"a{at}") for at in range(3)]
    assert [each[:2] for each in _found(*nodes)] == [("op0", "op1"), ("op1", "op2")]


def test_a_concatenation_and_the_results_of_a_call_are_seen_through() -> None:
    joined = _found(
        _node("op0", "x", "a"), _node("op1", "x", "b"),
        _node("op2", "a b", "c", "nop"), _node("op3", "c", "d"),
    )  # fmt: skip
    assert [each[:2] for each in joined] == [("op0", "op1"), ("op0", "op3"), ("op1", "op3")]
    sort = _found(
        _node("op0", "x", "a", "extern"), _node("op1", "a", "b", "unpack"), _node("op2", "b", "c")
    )
    assert sort == [("op0", "op2", 4 * BIG, 4 * BIG)]


def test_a_slice_reads_less_than_the_whole() -> None:
    reader = _node("op1", "a", "b", index=(("a", "c0 + 5, {c0: 100}"),))
    assert _found(_node("op0", "x", "a"), reader) == [("op0", "op1", 4 * BIG, 400)]


def test_what_a_library_changes_in_place_keeps_its_size() -> None:
    scatter = replace(_node("op1", "a i", "", "extern", mutates=("a",)), writes=("b",))
    first, last = _node("op0", "x", "a"), _node("op2", "b", "c")
    assert _found(first, scatter, last)[1] == ("op1", "op2", 4 * BIG, 4 * BIG)
    (*_, pair) = neighbours([first, scatter, last])
    assert (pair.shared[0].name, pair.memory) == ("b", ("a",)), "the wrapper knows the old name"


def _call(kernel: str, reads: str, writes: str, extern: bool = False) -> KernelCall:
    loads = tuple(Access(_tensor(each), "load", 4 * BIG) for each in reads.split())
    stores = tuple(Access(_tensor(each), "store", 4 * BIG) for each in writes.split())
    return KernelCall(kernel, extern, accesses=loads + stores)


def test_a_buffer_that_stays_inside_a_kernel() -> None:
    """The C++ kernel holds a layer norm: its mean and its output are two scheduler nodes."""
    calls = _call("addmm", "x", "a", True), _call("cpp_fused_norm_0", "a", "c d")
    norm = _node("op1", "a", "b", "reduction"), _node("op2", "a b", "c"), _node("op3", "x", "d")
    last = _call("mm", "c d", "e", True)
    made = _node("op4", "c d", "e", "extern", target="mm")
    nodes = _node("op0", "x", "a", "extern", target="addmm"), *norm, made
    part = Compilation("0/0", calls=(*calls, last), after=nodes, code=("",))
    found = not_fused(part)
    named = [(each.a, each.b, each.a_kind, each.b_kind) for each in found]
    assert ("addmm", "cpp_fused_norm_0", "extern", "reduction") in named
    assert not any("op" in name for each in named for name in each[:2])
    both = next(each for each in found if each.b == "mm")
    assert both.bytes == 4 * 4 * BIG, "c and d, each written and read"


def test_a_kernel_in_between() -> None:
    first, last = _node("op0", "x", "a"), _node("op3", "a c", "d")
    middle = _node("op1", "a", "c", "extern")
    assert NodeOrder([first, middle, last]).between(first, last)
    assert not NodeOrder([first, _node("op1", "x", "c"), last]).between(first, last)
    assert not NodeOrder([first, _node("op1", "a", "c", "unpack"), last]).between(first, last)


def test_what_a_wrapper_returns() -> None:
    code = (
        "def call(args):\n    return (buf1, reinterpret_tensor(buf0, (8, 4), (4, 1), 0), None, )\n"
    )
    assert returns(code) == ("buf1", "buf0", "")
    assert returns("") == ()
