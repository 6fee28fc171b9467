"""Runs a benchmark: checks every contender of a row against float64, then times all in turns."""

from __future__ import annotations

import gc
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
import torch

from foretrace.base.errors import MissingError
from foretrace.kernels.bench import contenders
from foretrace.kernels.bench.subjects import BenchSubject, Tensors
from foretrace.kernels.routes import plan
from foretrace.kernels.tune import warm
from foretrace.record.experiments.timing import call_times, captured, device_times
from foretrace.record.profiling.run_record import version_of
from foretrace.schema.documents.bench import SCHEMA, BenchDocument, BenchRow, ContenderTimes


@dataclass(slots=True)
class _AutotuneBudget:
    left_s: float


def run(
    subjects: Iterable[BenchSubject],
    names: tuple[str, ...],
    repeats: int,
    autotune_s: float,
    dtype: torch.dtype,
    say: Callable[[str], None],
    keep: Callable[[BenchDocument], None],
) -> BenchDocument:
    """Measure `subjects`; `keep` gets the results after each row; `autotune_s` limits tuning."""
    if not torch.cuda.is_available():
        needs = "a CUDA GPU with torch and Triton: pip install 'foretrace[bench]'"
        raise MissingError(f"a benchmark needs {needs}")
    torch.manual_seed(0)
    subjects = list(subjects)
    start = time.perf_counter()
    for activation in sorted({subject.activation for subject in subjects}):
        warm(dtype, activation)
    torch.cuda.synchronize()
    warm_up_s = time.perf_counter() - start
    say(f"own kernels ready after {warm_up_s:.1f} s")
    copy, matmul = ceilings()
    say(f"ceilings: copy {copy:.2f} TB/s, matrix product {matmul:.0f} TFLOP/s")
    command = shlex.join(["foretrace", *sys.argv[1:]])
    results = BenchDocument(SCHEMA, command, environment(), copy, matmul, warm_up_s, ())
    budget = _AutotuneBudget(autotune_s)
    for subject in subjects:
        row = measure(subject, names, repeats, dtype, budget)
        results = msgspec.structs.replace(results, rows=(*results.rows, row))
        gains = (f"{by} {row.gain(by) or float('nan'):.3f}" for by in ("device", "call"))
        say(f"{row.subject} {row.size}: gain over the best peer: {', '.join(gains)}")
        keep(results)
    return results


def measure(
    subject: BenchSubject,
    names: tuple[str, ...],
    repeats: int,
    dtype: torch.dtype,
    budget: _AutotuneBudget,
) -> BenchRow:
    """One row: first calls and errors one contender at a time, then the times of all, in turns."""
    torch._dynamo.reset()
    inputs = subject.inputs()
    truth = subject.truth(inputs)
    calls, first_ms, errors, left_out = {}, {}, {}, {}
    for name in names:
        reason = _reason_to_leave_out(name, subject, budget)
        if reason is not None:
            left_out[name] = reason
            continue
        start = time.perf_counter()
        call = contenders.call_for(name, subject, inputs)
        try:
            got = call()
            torch.cuda.synchronize()
            first_ms[name] = (time.perf_counter() - start) * 1e3
            errors[name] = error(got, truth)
            calls[name] = call
        except torch.cuda.OutOfMemoryError:
            left_out[name] = "out of memory"
        if name in contenders.TUNED:
            budget.left_s -= time.perf_counter() - start
    # A result holds its graph, and with it the stream of the first call: no capture could use it.
    del truth, got
    whole = call_times(calls)
    device = device_times(captured(calls), repeats)
    timings = {
        name: ContenderTimes(*device[name], *whole[name], errors[name], first_ms[name])
        for name in calls
    }
    del inputs, calls
    gc.collect()
    torch.cuda.empty_cache()
    size = (subject.m, subject.d, subject.h)
    routes = plan(torch.cuda.current_device(), dtype, size, True) if subject.d else ()
    route = "; ".join(part.text() for part in routes)
    moved, named = subject.elements * dtype.itemsize, str(dtype).removeprefix("torch.")
    return BenchRow(subject.name, *size, named, subject.flops, moved, route, timings, left_out)


def _reason_to_leave_out(name: str, subject: BenchSubject, budget: _AutotuneBudget) -> str | None:
    if name in contenders.TUNED and budget.left_s <= 0:
        return "the time for autotuning was used up"
    return contenders.why_left_out(name, subject)


def error(got: Tensors, truth: Tensors) -> float:
    """The worst relative distance, in norm, of any result; infinite for NaN."""
    worst = 0.0
    for mine, right in zip(got, truth, strict=True):
        distance = ((mine.double() - right).norm() / right.norm()).item()
        worst = max(worst, distance if distance == distance else float("inf"))
    return worst


def ceilings() -> tuple[float, float]:
    """TB/s of a large copy (read and written), and TFLOP/s of a large bf16 matrix product."""
    source = torch.randn(1 << 30, dtype=torch.bfloat16, device="cuda")
    target = torch.empty_like(source)
    left, right = torch.randn(2, 8192, 8192, dtype=torch.bfloat16, device="cuda")
    calls = {"copy": lambda: target.copy_(source), "product": lambda: left @ right}
    times = device_times(calls, repeats=11)
    moved = 2 * source.numel() * source.itemsize
    return moved / times["copy"].median / 1e6, 2 * 8192**3 / times["product"].median / 1e6


def environment() -> dict[str, str]:
    """What the figures depend on."""
    import triton

    found = {
        "card": torch.cuda.get_device_name(),
        "torch": str(torch.__version__),
        "triton": triton.__version__,
        "cuda": str(torch.version.cuda),
        "python": sys.version.split()[0],
    }
    peers = {name: version_of(name) for name in ("liger-kernel", "quack-kernels")}
    return found | {name: version for name, version in peers.items() if version}
