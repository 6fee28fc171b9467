"""One program at one shape: its first calls, what was compiled, and its pace after that.

It follows a server that sees one shape after another: Dynamo starts with nothing compiled and keeps
what it compiled for earlier shapes. Inductor's cache on disk would hide the compile time of a first
deployment, so it is empty by default.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch

from foretrace.record.experiments.machine import compiler
from foretrace.record.experiments.timing import Call, Pace, paces
from foretrace.record.profiling.compiler_records import CompileWatch
from foretrace.record.profiling.window import batch
from foretrace.schema import compiled

# CUDA graphs are recorded in the second call and replayed from the third on.
FIRST_CALLS = 3


@dataclass(frozen=True, slots=True)
class FirstCalls:
    """The first calls at a shape. `recompiles` and `gave_up` hold Dynamo's reasons."""

    calls_ns: tuple[int, ...]
    compile_s: float
    graphs: int
    graph_breaks: dict[str, int]
    recompiles: tuple[str, ...]
    gave_up: tuple[str, ...]

    @property
    def hit_limit(self) -> bool:
        """Whether Dynamo stopped at its limit (recompile_limit; cache_size_limit in old torch)."""
        return any("limit" in why for why in self.gave_up)

    def stall_ns(self, warm_ns: float) -> float:
        """What the first calls took beyond warm ones."""
        return max(sum(self.calls_ns) - len(self.calls_ns) * warm_ns, 0)


@dataclass(frozen=True, slots=True)
class Visit:
    """A program at a shape, timed in turns with a baseline; `compiled` is None without compiler."""

    shape: str
    first: FirstCalls
    base: Pace
    pace: Pace
    compiled: bool | None

    @property
    def stall_ns(self) -> float:
        """What the first calls took beyond warm ones."""
        return self.first.stall_ns(self.pace.wall.median or 0)

    @property
    def compilation(self) -> tuple[int, float, float, int, list[str], list[str], bool | None]:
        """first_call_ns, stall_ns, compile_s, graphs, recompiles, gave_up, compiled."""
        first = self.first
        reasons = list(first.recompiles), list(first.gave_up)
        times = first.calls_ns[0], self.stall_ns, first.compile_s
        return *times, first.graphs, *reasons, self.compiled


def visit(
    shape: str, call: Call, base: Call, before: Sequence[Visit], *, compiles: bool, on_gpu: bool
) -> Visit:
    """Make the first calls of `call`, then time it and `base` in turns."""
    first = first_calls(call)
    both = paces({"base": base, "call": call}, on_gpu=on_gpu)
    made = [*(visit.first for visit in before), first]
    runs = runs_compiled(call, made) if compiles else None
    return Visit(shape, first, both["base"], both["call"], runs)


def first_calls(call: Call) -> FirstCalls:
    """Make the first calls, each timed until the device is idle."""
    watch = CompileWatch()
    calls = tuple(batch(call, 1)[0] for _ in range(FIRST_CALLS))
    seen = watch.report()
    reasons = (tuple(seen[name]) for name in ("recompiles", "gave_up"))
    return FirstCalls(calls, seen["seconds"], seen["graphs"], seen["graph_breaks"], *reasons)


def runs_compiled(call: Call, made: Sequence[FirstCalls]) -> bool:
    """Whether a call enters compiled code; `made` are all first calls so far, its own included.

    After Dynamo gave up, a call may still find code compiled for an older shape. Dynamo names each
    entry while a profiler runs, so one call under a profiler shows it.
    """
    if not any(first.gave_up for first in made):
        return any(first.graphs for first in made)
    with torch.autograd.profiler.profile() as seen:
        call()
    return any(event.name.startswith(compiled.REGION) for event in seen.function_events)


@contextlib.contextmanager
def fresh_compiler(keep_cache: bool) -> Iterator[None]:
    """Dynamo as in a new process; with an empty cache of Inductor and Triton, unless kept."""
    torch._dynamo.reset()
    if keep_cache:
        yield
        return
    from torch._inductor.utils import fresh_inductor_cache

    problem = None
    # an exception through it would leave the folder behind, and say so
    with fresh_inductor_cache():
        try:
            yield
        except Exception as caught:  # noqa: BLE001 (raised again below)
            problem = caught
    if problem is not None:
        raise problem


def start_compiler(device: str, say: Callable[[str], None]) -> int:
    """Nanoseconds of this process's first compilation, of `x + 1`: imports and probes."""
    say("starting the compiler")
    compiled: Any = compiler("default", device)(lambda x: x + 1)
    x = torch.ones(8, device=device)
    began = perf_counter_ns()
    with fresh_compiler(keep_cache=False):
        compiled(x)
    return perf_counter_ns() - began


def recompile_limit() -> int | None:
    """How many times Dynamo compiles one function; torch 2.6 renamed the setting."""
    from torch._dynamo import config

    found = getattr(config, "recompile_limit", None) or getattr(config, "cache_size_limit", None)
    return None if found is None else int(found)
