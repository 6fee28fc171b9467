"""What was not fused in the recorded runs, why, what it costs, and what tuning made of it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

import foretrace
from compiled_recordings import DATA, RUNS, compiled, joined
from foretrace.read.compiler import read
from foretrace.read.compiler.records import (
    Access,
    Compilation,
    CompilerRun,
    Elsewhere,
    KernelCall,
    NamedTensor,
    SchedulerNode,
)
from foretrace.trace.compiled.assemble import assemble
from foretrace.why.measured import Ran
from foretrace.why.not_fused import (
    REASONS,
    WORDS,
    OtherRun,
    Separation,
    across_breaks,
    grouped,
    neighbours,
    not_fused,
)

MIB = 1 << 20
TUNED = Path(__file__).parents[1] / "data" / "tuned"


@cache
def measured(run: str) -> Ran:
    """What the recorded trace says about the calls of a run."""
    compiler, trace = compiled(run), foretrace.open(DATA / run / "trace.json.gz")
    return Ran(compiler, trace, joined(compiler, trace))


def _part(run: str, compile_id: str) -> Compilation:
    return next(each for each in compiled(run).compilations if each.id == compile_id)


def _pairs(found: tuple[Separation, ...]) -> dict[tuple[str, str], Separation]:
    return {(each.a.rpartition(":")[2], each.b.rpartition(":")[2]): each for each in found}


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
