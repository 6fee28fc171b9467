"""Compiled kernels of a trace, joined with the calls of wrappers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

import foretrace
from compiled_recordings import DATA, joined, logs
from corpus.builder import TraceBuilder
from foretrace.read.compiler.records import Compilation, CompilerRun, GeneratedKernel, KernelCall
from foretrace.trace.compiled.assemble import assemble
from foretrace.trace.compiled.launches import Launches, Wrapper, by_order
from foretrace.trace.trace import Trace
from opened_traces import open_made

RUNS = {
    "mlp": (12, 12, 4),
    "unfusable": (21, 21, 6),
    "recompiles": (12, 15, 4),
    "llama_train": (567, 617, 180),
}


@cache
def run_of(name: str) -> CompilerRun:
    return assemble(logs(name))


@cache
def trace_of(name: str) -> Trace:
    return foretrace.open(DATA / name / "trace.json.gz")


@pytest.mark.parametrize("name", RUNS)
def test_every_compiled_kernel_finds_its_call(name: str) -> None:
    run, trace = run_of(name), trace_of(name)
    found = joined(run, trace)
    compiled, all_kernels, calls = RUNS[name]
    assert (found.compiled, found.joined, found.left) == (compiled, compiled, ())
    assert int(trace.gpu.is_kernel.sum()) == all_kernels
    assert len(found.calls) == calls
    assert found.unknown_runs == 0
    assert all(run.bytes is not None for call in found.calls for run in call.runs)
    for call, kernels in _generated(run, found, trace):
        assert set(kernels) == {call.kernel}


def _generated(
    run: CompilerRun, found: Launches, trace: Trace
) -> Iterator[tuple[KernelCall, list[str]]]:
    """Generated kernels carry their names into the trace: a check by a second way."""
    for each in found.calls:
        call = run.compilations[each.compilation].calls[each.call]
        if not call.extern:
            events = [event for run in each.runs for event in run.kernels]
            yield call, [trace.host.names[trace.host.name[event]] for event in events]


def test_library_calls_have_the_shapes_of_their_ops() -> None:
    """A second way: the op's recorded arguments against the tensors of its call."""
    run, trace = run_of("llama_train"), trace_of("llama_train")
    checked = 0
    for each in joined(run, trace).calls:
        call = run.compilations[each.compilation].calls[each.call]
        if call.kernel != "extern_kernels.mm":
            continue
        for event in (event for run in each.runs for event in run.kernels):
            op = int(trace.gpu.op[trace.gpu.id.tolist().index(event)])
            arguments = trace.arguments.of(op)
            assert arguments is not None
            assert [list(access.tensor.shape) for access in call.accesses] == arguments.dims
            checked += 1
    assert checked > 250


def test_dynamic_sizes_come_from_the_launches() -> None:
    run, trace = run_of("recompiles"), trace_of("recompiles")
    gelu = next(each for each in joined(run, trace).calls if each.call == 2)
    assert run.compilations[gelu.compilation].id == "0/1"
    assert [each.bytes for each in gelu.runs] == [393_216 * 6 * batch for batch in (8, 64, 32)]


def test_a_log_of_another_run_explains_nothing() -> None:
    for run in (run_of("unfusable"), run_of("llama_train"), _run()):
        found = joined(run, trace_of("mlp"))
        assert (found.compiled, found.joined, found.unknown_runs) == (12, 0, 3)


# Small cases


def wrapper(*names: str) -> Wrapper:
    calls = tuple(KernelCall(name, not name.startswith("triton")) for name in names)
    kernels = {n: GeneratedKernel(n, "triton", "") for n in names if n.startswith("triton")}
    return Wrapper(0, "0/0", 0, calls, tuple(range(len(names))), kernels)


def test_kernels_of_a_cuda_graph_follow_calls() -> None:
    made = wrapper(
        "extern_kernels.mm", "triton_a", "extern_kernels.mm", "extern_kernels.mm", "triton_b"
    )
    kernels = ["gemm", "reduce", "triton_a", "gemm", "gemm", "triton_b"]
    assert by_order(kernels, made) == {0: [0, 1], 1: [2], 2: [3], 3: [4], 4: [5]}
    # three kernels between, and two calls: nobody knows which is whose
    more = ["gemm", "triton_a", "gemm", "reduce", "gemm", "triton_b"]
    assert by_order(more, made) == {0: [0], 1: [1], 4: [5]}
    # cuBLAS clears four bytes before a kernel
    filled = ["gemm", "triton_a", "Memset", "gemm", "Memset", "gemm", "triton_b"]
    found = {0: [0], 1: [1], 2: [2, 3], 3: [4, 5], 4: [6]}
    assert by_order(filled, made, {2, 4}) == found


def _run(*compilations: Compilation) -> CompilerRun:
    return replace(run_of("mlp"), compilations=compilations)


def _compiled(*names: str, compile_id: str = "0/0") -> Compilation:
    made = wrapper(*names)
    return Compilation(compile_id, kernels=tuple(made.kernels.values()), calls=made.calls)


def test_a_trace_without_host_rows_goes_by_names(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for at, name in enumerate(["triton_a", "triton_b", "triton_b", "gemm", "triton_c"] * 2):
        builder.kernel(name, 10_000 * at, 5_000, correlation=0)
    run = _run(
        _compiled("triton_a", "triton_b", "triton_b", "triton_c"),
        _compiled("triton_c", compile_id="1/0"),
    )
    found = joined(run, open_made(builder, tmp_path))
    assert [
        (each.compilation, each.call, sum(len(run.kernels) for run in each.runs))
        for each in found.calls
    ] == [
        (0, 0, 2),
        (0, 1, 2),
        (0, 2, 2),
    ]
    assert (found.compiled, len(found.left)) == (8, 2)  # two wrappers have a triton_c
