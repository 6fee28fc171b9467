"""Runs a benchmark: checks every contender of a row against float64, then times all in turns.

Each row runs in a process of its own, as a user's program does: what was warm, compiled or cached
for one size helps no other. Processes are forked after the imports and before CUDA starts.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import msgspec
import torch

from foretrace.base.errors import MissingError
from foretrace.kernels.bench import contenders
from foretrace.kernels.bench.subjects import BenchSubject, Tensors
from foretrace.kernels.routes import plan
from foretrace.kernels.tune import load, warm
from foretrace.record.experiments.machine import call_times, captured, device_times
from foretrace.record.lab_documents import SCHEMA, BenchDocument, BenchRow, ContenderTimes
from foretrace.record.profiling.run_record import version_of

Result = TypeVar("Result")
Row = tuple[BenchSubject, Sequence[str]]
# Rows of calls, and how long each takes at least: the host's speed varies from row to row.
ROUNDS, AT_LEAST_S = 21, 0.003


def run(
    rows: Sequence[Row],
    repeats: int,
    autotune_s: float,
    dtype: torch.dtype,
    say: Callable[[str], None],
    keep: Callable[[BenchDocument], None],
) -> BenchDocument:
    """Measure each subject with its contenders; `autotune_s` limits how long peers are tuned.

    `keep` gets the results after each row.
    """
    # Asks the driver's library, which starts no CUDA: no fork survives that.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    # Inductor sets it at its first kernel, and what was warm would compile again there.
    os.environ.setdefault("TRITON_CACHE_DIR", str(Path.home() / ".triton" / "cache"))
    if not torch.cuda.is_available():
        needs = "a CUDA GPU with torch and Triton: pip install 'foretrace[bench]'"
        raise MissingError(f"a benchmark needs {needs}")
    contenders.import_for({name for _, names in rows for name in names})
    activations = sorted({subject.activation for subject, _ in rows})
    warm_up_s = in_new_process(lambda: _warmed(dtype, activations))
    say(f"own kernels ready after {warm_up_s:.1f} s")
    facts, copy, matmul = in_new_process(lambda: (environment(), *ceilings()))
    say(f"ceilings: copy {copy:.2f} TB/s, matmul {matmul:.0f} TFLOP/s")
    command = shlex.join(["foretrace", *sys.argv[1:]])
    results = BenchDocument(SCHEMA, command, facts, copy, matmul, warm_up_s, ())
    for subject, names in rows:
        row = in_new_process(lambda: measure(subject, names, repeats, dtype, autotune_s))  # noqa: B023
        tuned = [at for name, at in row.timings.items() if name in contenders.TUNED]
        autotune_s -= sum(at.first_call_ms for at in tuned) / 1e3
        results = msgspec.structs.replace(results, rows=(*results.rows, row))
        gains = (f"{by} {row.gain(by) or float('nan'):.3f}" for by in ("device", "call"))
        say(f"{row.subject} {row.size}: gain over the best peer: {', '.join(gains)}")
        keep(results)
    return results


def in_new_process(work: Callable[[], Result]) -> Result:
    """What `work` returns in a process that begins with all that is imported here."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(work, sending))
    process.start()
    sending.close()
    try:
        done, answer = receiving.recv()
    except EOFError:
        process.join()
        raise MissingError(f"a measuring process ended with code {process.exitcode}") from None
    process.join()
    if not done:
        raise answer
    result: Result = answer
    return result


def _answer(work: Callable[[], object], sending: Connection) -> None:
    try:
        sending.send((True, work()))
    except Exception as problem:  # noqa: BLE001 - raised again in the first process
        sending.send((False, RuntimeError(f"{type(problem).__name__}: {problem}")))
    # Quack compiles in processes that it never ends: this one would wait for them.
    for left in multiprocessing.active_children():
        left.kill()


def _warmed(dtype: torch.dtype, activations: Sequence[str]) -> float:
    """Seconds until every kernel of ours is compiled, on disk, and loaded."""
    start = time.perf_counter()
    for activation in activations:
        warm(dtype, activation)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(
    subject: BenchSubject, names: Sequence[str], repeats: int, dtype: torch.dtype, autotune_s: float
) -> BenchRow:
    """One row: first calls and errors one contender at a time, then the times of all, in turns."""
    torch.manual_seed(0)
    size = (subject.m, subject.d, subject.h)
    routes = plan(torch.cuda.current_device(), dtype, size, True) if subject.d else ()
    load(routes, dtype, subject.activation)
    inputs = subject.inputs()
    truth = subject.truth(inputs)
    calls, first_ms, errors, left_out = {}, {}, {}, {}
    for name in names:
        reason = contenders.why_left_out(name, subject)
        if name in contenders.TUNED and autotune_s <= 0:
            reason = "the time for autotuning was used up"
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
    # A result holds its graph, and with it the stream of the first call: no capture could use it.
    del truth, got
    if "torch._inductor.async_compile" in sys.modules:  # its processes compete for the host
        sys.modules["torch._inductor.async_compile"].shutdown_compile_workers()
    whole = call_times(calls, ROUNDS, AT_LEAST_S)
    device = device_times(captured(calls), repeats)
    timings = {
        name: ContenderTimes(*device[name], *whole[name], errors[name], first_ms[name])
        for name in calls
    }
    route = "; ".join(part.text() for part in routes)
    moved, named = subject.elements * dtype.itemsize, str(dtype).removeprefix("torch.")
    return BenchRow(subject.name, *size, named, subject.flops, moved, route, timings, left_out)


def error(got: Tensors, truth: Tensors) -> float:
    """The worst relative distance, in norm, of any result; infinite for NaN."""
    worst = 0.0
    for mine, right in zip(got, truth, strict=True):
        distance = ((mine.double() - right).norm() / right.norm()).item()
        worst = max(worst, distance if distance == distance else float("inf"))
    return worst


def ceilings() -> tuple[float, float]:
    """TB/s of a large copy (read and written), and TFLOP/s of a large bf16 matmul."""
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
