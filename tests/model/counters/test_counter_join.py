"""Launches of an export and kernels of a trace: joined where that is certain, never otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyze.rules.sketch import ADD, GELU, GEMM, MUL, Sketch, kernel
from counter_files import export_text, row
from foretrace.model.counters import (
    CounterJoin,
    Wanted,
    argument_words,
    certain_pairs,
    function,
    joined,
    launches_of,
    occurrences,
)
from foretrace.model.trace import Trace
from foretrace.read.ncu import CounterLaunch, read_export
from opened_traces import open_made

NCU_ADD = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char *, 3>>(int, T2, T3)"
)
NCU_MUL = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<c10::BFloat16, "
    "c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>, "
    "std::array<char *, 3>>(int, T2, T3)"
)
NCU_GELU = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl("
    "at::TensorIteratorBase &, at::native::GeluType)::[lambda() (instance 1)], "
    "std::array<char *, 3>>(int, T2, T3)"
)
STEP = (GEMM, GELU, GEMM, MUL, GEMM)
NCU_STEP = (GEMM, NCU_GELU, GEMM, NCU_MUL, GEMM)
SHAPE = {"grid": [4, 1, 1], "block": [128, 1, 1]}


def _trace(folder: Path, steps: Sequence[Sequence[str]]) -> Trace:
    sketch = Sketch()
    for names in steps:
        sketch = sketch.step()
        for name in names:
            sketch = sketch.op("aten::mm", kernel(name, 10, **SHAPE))
    return open_made(sketch, folder)


def _launches(names: Sequence[str]) -> tuple[CounterLaunch, ...]:
    rows = [row(name, 1, 2, 3, 1, number=at) for at, name in enumerate(names)]
    return read_export(export_text(rows), "c.csv").launches


def _join(
    folder: Path, steps: Sequence[Sequence[str]], names: Sequence[str], wanted: Wanted
) -> tuple[CounterJoin, list[tuple[str, str]]]:
    """The join, and the functions of each pair: they must be the same."""
    trace, launches = _trace(folder, steps), _launches(names)
    found = joined(trace, launches, wanted)
    kernels = dict(zip(trace.kernels["id"], trace.kernels["name"], strict=True))
    return found, [(launches[at].name, kernels[event]) for at, event in found.pairs]


def test_names_of_both_demanglers() -> None:
    assert function(ADD) == function(NCU_ADD) == "vectorized_elementwise_kernel"
    assert argument_words(GELU) == argument_words(NCU_GELU)
    assert function("void at::native::(anonymous namespace)::CatArray<float, 4>(int)") == "CatArray"
    assert function("at::native::<unnamed>::CatArray<(int)4>") == "CatArray"
    assert function("triton_poi_fused_gelu_mul_0") == "triton_poi_fused_gelu_mul_0"


def test_the_same_launches_are_joined_in_order(tmp_path: Path) -> None:
    found, pairs = _join(tmp_path, [STEP, STEP], NCU_STEP, Wanted(-1))
    assert (found.place, found.compared, found.note) == ("ProfilerStep#2", 5, "")
    assert pairs == list(zip(NCU_STEP, STEP, strict=True))


def test_of_several_steps_that_fit_the_last_one_counts(tmp_path: Path) -> None:
    found, _ = _join(tmp_path, [STEP, STEP, STEP[:2]], NCU_STEP, Wanted())
    assert (found.place, len(found.pairs)) == ("ProfilerStep#2", 5)


def test_a_kernel_of_one_run_alone(tmp_path: Path) -> None:
    names = (GEMM, NCU_GELU, "splitKreduce_kernel", GEMM, NCU_MUL, GEMM)
    found, pairs = _join(tmp_path, [STEP], names, Wanted(-1))
    assert len(pairs) == 5
    assert found.note.startswith("1 launch not in the trace: splitKreduce_kernel (1)")


def test_one_of_several_that_fit_is_joined_to_none(tmp_path: Path) -> None:
    found, pairs = _join(tmp_path, [(ADD, ADD, GEMM)], (NCU_ADD, GEMM), Wanted(-1))
    assert pairs == [(GEMM, GEMM)]
    assert found.note == (
        "1 launch could be several kernels of it, or none; 2 kernels of the trace not joined; "
        "the runs differ much, so a launch may be another one of the same kernel"
    )


def test_kernels_that_share_function_and_grid_are_told_apart(tmp_path: Path) -> None:
    _, pairs = _join(tmp_path, [(ADD, MUL, GELU)], (NCU_ADD, NCU_GELU), Wanted(-1))
    assert pairs == [(NCU_ADD, ADD), (NCU_GELU, GELU)]


def test_another_kernel_of_the_same_function_is_not_joined(tmp_path: Path) -> None:
    found, pairs = _join(tmp_path, [(GEMM, MUL)], (GEMM, NCU_GELU), Wanted(-1))
    assert pairs == [(GEMM, GEMM)]
    assert found.note.startswith("1 launch could be several kernels of it, or none")


def test_numbers_of_the_template_arguments_tell_kernels_apart(tmp_path: Path) -> None:
    trace = [f"void cat<OpaqueType<2u>, unsigned int, {size}, 128>(int)" for size in (3, 4)]
    export = [f"void cat<OpaqueType<2>, unsigned int, (int){size}, 128>(T1)" for size in (4, 3)]
    _, pairs = _join(tmp_path, [(trace[1], trace[0])], export, Wanted(-1))
    assert pairs == list(zip(export, trace[::-1], strict=True))


def test_another_grid_is_another_kernel(tmp_path: Path) -> None:
    trace = _trace(tmp_path, [(GEMM, GEMM)])
    launches = read_export(
        export_text([row(GEMM, 1, 2, 3, 1), row(GEMM, 1, 2, 3, 1, number=1, grid=(8, 1, 1))]), "c"
    ).launches
    assert joined(trace, launches, Wanted(-1)).pairs == []


def test_exports_without_template_arguments_are_joined_by_order(tmp_path: Path) -> None:
    names = ("vectorized_elementwise_kernel", GEMM, "vectorized_elementwise_kernel")
    _, pairs = _join(tmp_path, [(MUL, GEMM, ADD)], names, Wanted(-1))
    assert [ours for _, ours in pairs] == [MUL, GEMM, ADD]


def test_a_filter_and_a_limit_hold_for_the_trace_as_well(tmp_path: Path) -> None:
    found, pairs = _join(tmp_path, [STEP], (NCU_GELU, NCU_MUL), Wanted(-1, kernel="vectorized"))
    assert (found.compared, len(pairs)) == (2, 2)
    found, pairs = _join(tmp_path, [STEP], NCU_STEP[:2], Wanted(-1, limit=2))
    assert (found.compared, len(pairs)) == (2, 2)


def test_a_part_of_the_trace(tmp_path: Path) -> None:
    found, pairs = _join(tmp_path, [STEP], NCU_STEP[1:4], Wanted())
    assert [ours for _, ours in pairs] == [GELU, GEMM, MUL]
    found, pairs = _join(tmp_path, [STEP, STEP], NCU_STEP[1:4], Wanted())
    assert (found.place, len(pairs)) == ("ProfilerStep#2", 3)
    found, pairs = _join(tmp_path, [(GEMM, ADD, GEMM, ADD, MUL)], (GEMM, NCU_ADD), Wanted())
    assert pairs == []
    assert found.note == "the launches fit 2 places of the trace, so they are joined to none"


def test_other_processes_are_left_out(tmp_path: Path) -> None:
    rows = [
        row("helper", 1, 2, 3, 1, process=8),
        row(GEMM, 1, 2, 3, 1),
        row("x", 1, 2, 3, 1, number=1),
    ]
    found, notes = launches_of(
        _trace(tmp_path, [STEP]), read_export(export_text(rows), "c").launches
    )
    assert [one.name for one in found] == [GEMM, "x"]
    assert notes == ["1 launch of other processes or GPUs not used"]


def _longest(left: Sequence[int], right: Sequence[int]) -> list[set[tuple[int, int]]]:
    """Every longest alignment, by trying all."""
    for size in range(min(len(left), len(right)), 0, -1):
        found = [
            set(zip(ours, theirs, strict=True))
            for ours in combinations(range(len(left)), size)
            for theirs in combinations(range(len(right)), size)
            if all(left[i] == right[j] for i, j in zip(ours, theirs, strict=True))
        ]
        if found:
            return found
    return [set()]


@given(st.lists(st.integers(0, 2), max_size=6), st.lists(st.integers(0, 2), max_size=6))
def test_only_pairs_of_every_longest_alignment(left: list[int], right: list[int]) -> None:
    pairs = certain_pairs(left, right)
    assert pairs is not None
    assert set(pairs) == set.intersection(*_longest(left, right))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.lists(st.integers(0, 2), max_size=9))
def test_places_of_a_part(part: list[int], whole: list[int]) -> None:
    expected = [at for at in range(len(whole)) if whole[at : at + len(part)] == part]
    assert occurrences(part, whole) == expected


def test_lists_that_are_too_long_are_not_compared() -> None:
    assert certain_pairs([0] * 5000, [1] * 5000) is None
    assert certain_pairs([0] * 5000, [0] * 5000) == [(at, at) for at in range(5000)]


@pytest.mark.parametrize("names", [STEP, (GEMM,) * 3])
def test_a_trace_without_steps(tmp_path: Path, names: Sequence[str]) -> None:
    sketch = Sketch()
    for name in names:
        sketch = sketch.op("aten::mm", kernel(name, 10, **SHAPE))
    trace = open_made(sketch, tmp_path)
    found = joined(trace, _launches(names), Wanted())
    assert (found.place, len(found.pairs)) == ("the trace", len(names))
