"""The machine of an experiment: its device, dtype and compiler, and how long warm calls take on it.

Calls are timed side by side, without a profiler. They take turns and their order rotates, so that
clocks, heat and other processes affect all of them equally. Three times matter. `device`: how long
the GPU works on a call whose launches are already queued. `call` or `wall`: one call in a row of
calls, host and device together. `host`: how long the host takes to launch a call.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from foretrace.base.errors import ForetraceError, MissingError, UsageError, first_line, warn
from foretrace.record.profiling.window import batch
from foretrace.record.rung import COMPILED, Choice, Rung, Setup

if TYPE_CHECKING:
    from foretrace.compare.measure import Sample

Call = Callable[[], object]
Figure = tuple[str, str, Callable[[], float]]  # its group, its name there, and how to measure it
# With eleven batches a side, identical programs are reported as different less than 1% of the time
# (see comparison/measure). Calls so slow that they would take a minute get three.
ROUNDS, FEW_ROUNDS = 11, 3
BATCH_NS, PATIENCE_NS, MOST_CALLS = 50_000_000, 30_000_000_000, 100
IQR_OF_NORMAL = 1.349  # the quartiles of normal values lie this many standard deviations apart


class Quartiles(NamedTuple):
    """Microseconds: the median, and the quartiles around it."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: list[float]) -> Quartiles:
        """The quartiles of one value or more."""
        if len(values) == 1:
            return Quartiles(values[0], values[0], values[0])
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return Quartiles(middle, low, high)


@dataclass(frozen=True, slots=True)
class Pace:
    """Nanoseconds per call, each with its spread; a CPU has no `gpu`."""

    wall: Sample
    host: Sample
    gpu: Sample


def paces(calls: Mapping[str, Call], *, on_gpu: bool) -> dict[str, Pace]:
    """The pace of each call; all of them must be warm."""
    from foretrace.compare.measure import sample  # needs the reader; benchmarks do not

    ones = {name: max(batch(call, 1)[0], 1) for name, call in calls.items()}
    rounds = ROUNDS if ROUNDS * sum(ones.values()) < PATIENCE_NS else FEW_ROUNDS
    counts = {name: max(1, min(MOST_CALLS, BATCH_NS // one)) for name, one in ones.items()}
    taken: dict[str, list[tuple[int, int]]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name in _rotated(calls, turn):
            taken[name].append(batch(calls[name], counts[name]))
    gpu = device_times(calls, rounds, cold=False) if on_gpu else {}
    found = {}
    for name, batches in taken.items():
        wall, host = (sample(list(times), 1) for times in zip(*batches, strict=True))
        found[name] = Pace(wall, host, gpu_sample(gpu.get(name)))
    return found


def gpu_sample(times: Quartiles | None) -> Sample:
    """Microseconds with quartiles as nanoseconds with a spread."""
    from foretrace.compare.measure import Sample

    if times is None:
        return Sample(None, None)
    return Sample(times.median * 1e3, (times.high - times.low) * 1e3 / IQR_OF_NORMAL)


def device_times(
    calls: Mapping[str, Call], repeats: int = 21, *, cold: bool = True
) -> dict[str, Quartiles]:
    """Device time of each warm call over `repeats` rounds; `cold` empties L2 before each."""
    # GPU cycles, at 2 GHz, while the host queues one warm call, with a margin
    queueing = {name: _second_call_ns(call)[1] for name, call in calls.items()}
    ahead = {name: int((min(ns, 5e6) * 1.5 + 6e4) * 2) for name, ns in queueing.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats):
        marks = []
        for name in _rotated(calls, turn):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            # The GPU waits here while the host queues the rest: the launches are not timed.
            torch.cuda._sleep(ahead[name])
            if cold:  # reading four times what L2 holds leaves nothing to write back
                _flood(torch.cuda.current_device()).sum()
            start.record()
            calls[name]()
            end.record()
            marks.append((name, start, end))
        torch.cuda.synchronize()
        for name, start, end in marks:
            taken[name].append(start.elapsed_time(end) * 1e3)
    return {name: Quartiles.of(values) for name, values in taken.items()}


def captured(calls: Mapping[str, Call]) -> dict[str, Call]:
    """Each warm call as the replay of a CUDA graph; a call that cannot be captured stays itself.

    A model that replays graphs pays device time alone, and some kernels are chosen accordingly.
    """
    found = {name: _graph(name, call) or call for name, call in calls.items()}
    torch.cuda.synchronize()
    return found


def _graph(name: str, call: Call) -> Call | None:
    graph, aside = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(aside):
            call()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=aside):
            call()
    except RuntimeError as problem:  # for example a contender that replays graphs of its own
        torch.cuda.synchronize()
        warn(f"{name} is timed without a CUDA graph: {str(problem).splitlines()[0]}")
        return None
    replay: Call = graph.replay
    return replay


def call_times(
    calls: Mapping[str, Call], rounds: int = 5, at_least_s: float = 0.01
) -> dict[str, Quartiles]:
    """Time per call in rows of calls, in turns, without waiting in between: host and device."""
    ones = {name: _second_call_ns(call)[0] for name, call in calls.items()}
    lengths = {name: min(300, max(3, int(at_least_s * 1e9 / ns))) for name, ns in ones.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name in _rotated(calls, turn):
            taken[name].append(batch(calls[name], lengths[name])[0] / 1e3)
    return {name: Quartiles.of(values) for name, values in taken.items()}


def _rotated(calls: Mapping[str, Call], turn: int) -> Iterator[str]:
    names = list(calls)
    return iter(names[turn % len(names) :] + names[: turn % len(names)])


def _second_call_ns(call: Call) -> tuple[int, int]:
    """Nanoseconds of one warm call, until the device is idle and until it is launched."""
    call()
    return batch(call, 1)


@lru_cache
def _flood(device: int) -> torch.Tensor:
    size = torch.cuda.get_device_properties(device).L2_cache_size
    return torch.zeros(size, dtype=torch.float32, device=f"cuda:{device}")


# A CPU's allocator has no error class of its own.
_NO_MEMORY = "can't allocate memory"


def prepare(rung: Rung, choice: Choice) -> Setup:
    """The setup that a choice means on this machine."""
    variant = rung.first if choice.variant in (None, COMPILED) else str(choice.variant)
    if variant not in rung.variants:
        known = ", ".join([*rung.variants, COMPILED])
        raise UsageError(f"{rung.name} has no variant {variant!r}: choose from {known}")
    device = find_device(choice.device)
    values = rung.values(choice.values, small=choice.small)
    setup = (device, find_dtype(choice.dtype, device), variant, values)
    if not choice.compiles:
        return Setup(*setup)
    return Setup(*setup, compiler(choice.mode, device, choice.dynamic))


def find_device(wanted: str) -> str:
    """`auto` is the GPU where there is one."""
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise MissingError("torch finds no CUDA GPU here: run with --device cpu")
    return ("cuda" if available else "cpu") if wanted == "auto" else wanted


def device_name(wanted: str) -> tuple[str, str]:
    """`cuda` or `cpu`, and the name of the device."""
    device = find_device(wanted)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU ({platform.machine()})"
    return device, name


def find_dtype(wanted: str, device: str) -> str:
    """`auto` is bf16, or fp32 on a CPU without bf16 arithmetic (a hundred times slower there)."""
    if wanted != "auto":
        return wanted
    return "bf16" if device == "cuda" or torch.ops.mkldnn._is_mkldnn_bf16_supported() else "fp32"


def compiler(mode: str, device: str, dynamic: bool | None = None) -> Callable[[Any], Any]:
    """`torch.compile` in that mode, or the error that says what it needs here."""
    if device == "cpu":
        if not any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "clang++")):
            message = "torch.compile needs a C++ compiler on a CPU: install g++ (apt install g++)"
            raise MissingError(message)
        from torch._inductor import config as inductor

        inductor.cpp.enable_kernel_profile = True  # else a CPU trace does not show what was fused
    named = None if mode == "default" else mode
    return lambda thing: torch.compile(thing, mode=named, dynamic=dynamic)


@contextlib.contextmanager
def refusals(name: str) -> Iterator[None]:
    """Sizes that torch refuses are wrong usage; no memory and a failing compiler are missing."""
    try:
        yield
    except (RuntimeError, ValueError, MemoryError) as problem:
        text = first_line(problem)
        if isinstance(problem, torch.OutOfMemoryError | MemoryError) or _NO_MEMORY in str(problem):
            message = f"{name} does not fit into memory: choose smaller sizes, or --small ({text})"
            raise MissingError(message) from problem
        if type(problem).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise MissingError(f"torch.compile cannot compile {name} here: {text}") from problem
        raise UsageError(f"{name} does not run with these options: {text}") from problem


@contextlib.contextmanager
def in_one_line(before: str = "") -> Iterator[None]:
    """Whatever fails inside is a `MissingError` of one line, so that the other runs continue."""
    try:
        yield
    except ForetraceError:
        raise
    except Exception as problem:
        raise MissingError(f"{before}{first_line(problem)}") from problem
