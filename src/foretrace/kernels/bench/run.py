"""Running a benchmark: every contender of a row in turn, checked against float64, then timed side
by side.
"""

from __future__ import annotations

import gc
import importlib.metadata
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import torch

from foretrace.errors import MissingError
from foretrace.kernels.bench import contenders
from foretrace.kernels.bench.results import Results, Row, Timing
from foretrace.kernels.bench.subjects import Subject, Tensors
from foretrace.kernels.routes import plan
from foretrace.kernels.timing import call_times, device_times
from foretrace.kernels.tune import warm

Say = Callable[[str], None]


def run(
    subjects: Iterable[Subject],
    names: tuple[str, ...],
    repeats: int,
    autotune_s: float,
    dtype: torch.dtype,
    say: Say,
    keep: Callable[[Results], None],
) -> Results:
    """Measure `subjects` with the contenders `names`. Autotuning stops being attempted once it has
    taken `autotune_s`.

    `keep` is given the results so far after every row, so that a run that is cut short leaves what
    it had.
    """
    if not torch.cuda.is_available():
        raise MissingError(
            "a benchmark needs a CUDA GPU with torch and Triton: pip install 'foretrace[bench]'"
        )
    torch.manual_seed(0)
    start = time.perf_counter()
    warm(dtype)
    torch.cuda.synchronize()
    warm_up_s = time.perf_counter() - start
    say(f"own kernels ready after {warm_up_s:.1f} s")
    copy, matmul = ceilings()
    say(f"ceilings: copy {copy:.2f} TB/s, matrix product {matmul:.0f} TFLOP/s")
    command = shlex.join(["foretrace", *sys.argv[1:]])
    results = Results(command, environment(), copy, matmul, warm_up_s, ())
    clock = _Clock(autotune_s)
    for subject in subjects:
        row = measure(subject, names, repeats, dtype, clock)
        results = replace(results, rows=(*results.rows, row))
        say(_one_line(row))
        keep(results)
    return results


class _Clock:
    """Seconds of autotuning left."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds


def measure(
    subject: Subject, names: tuple[str, ...], repeats: int, dtype: torch.dtype, clock: _Clock
) -> Row:
    """One row: first calls and errors one contender at a time, then the times of all, interleaved."""
    torch._dynamo.reset()
    inputs = subject.inputs()
    truth = subject.truth(inputs)
    calls, first_ms, errors, left_out = {}, {}, {}, {}
    for name in names:
        reason = _reason_to_leave_out(name, clock)
        if reason is not None:
            left_out[name] = reason
            continue
        start = time.perf_counter()
        call = contenders.call_for(name, subject, inputs)
        with suppress(torch.cuda.OutOfMemoryError):
            got = call()
            torch.cuda.synchronize()
            first_ms[name] = (time.perf_counter() - start) * 1e3
            errors[name] = error(got, truth)
            calls[name] = call
        if name in contenders.AUTOTUNED:
            clock.left -= time.perf_counter() - start
        if name not in calls:
            left_out[name] = "out of memory"
    del truth
    device, whole = device_times(calls, repeats), call_times(calls)
    timings = {
        name: Timing(*device[name], *whole[name], errors[name], first_ms[name]) for name in calls
    }
    route = (
        plan(torch.cuda.current_device(), dtype, (subject.m, subject.d, subject.h))
        if subject.d
        else ()
    )
    row = Row(
        subject.name, subject.m, subject.d, subject.h, str(dtype).removeprefix("torch."), subject.flops,
        subject.elements * dtype.itemsize, "; ".join(part.text() for part in route), timings, left_out,
    )  # fmt: skip
    del inputs, calls
    gc.collect()
    torch.cuda.empty_cache()
    return row


def _reason_to_leave_out(name: str, clock: _Clock) -> str | None:
    if not contenders.available(name):
        return "not installed"
    if name in contenders.AUTOTUNED and clock.left <= 0:
        return "the time for autotuning was used up"
    return None


def error(got: Tensors, truth: Tensors) -> float:
    """The worst relative distance, in norm, of any result; infinite where something is not a
    number.
    """
    worst = 0.0
    for mine, right in zip(got, truth, strict=True):
        distance = ((mine.double() - right).norm() / right.norm()).item()
        worst = max(worst, distance if distance == distance else float("inf"))
    return worst


def ceilings() -> tuple[float, float]:
    """Terabytes a second of a large copy (read and written), and TFLOP/s of a large bf16 matrix
    product, on this card."""
    source = torch.randn(1 << 30, dtype=torch.bfloat16, device="cuda")
    target = torch.empty_like(source)
    left, right = torch.randn(2, 8192, 8192, dtype=torch.bfloat16, device="cuda")
    times = device_times(
        {"copy": lambda: target.copy_(source), "product": lambda: left @ right}, repeats=11
    )
    moved = 2 * source.numel() * source.itemsize
    return moved / times["copy"].median / 1e6, 2 * 8192**3 / times["product"].median / 1e6


def environment() -> dict[str, str]:
    """What the figures depend on."""
    import triton

    found = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": str(torch.version.cuda),
        "python": sys.version.split()[0],
    }
    with suppress(importlib.metadata.PackageNotFoundError):
        found["liger-kernel"] = importlib.metadata.version("liger-kernel")
    return found


def _one_line(row: Row) -> str:
    gains = (f"{measure} {row.gain(measure) or float('nan'):.3f}" for measure in ("device", "call"))
    return f"{row.subject} {row.size}: ours against the best peer: {', '.join(gains)}"
