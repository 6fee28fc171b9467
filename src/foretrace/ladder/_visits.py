"""One program at one shape: its first calls, what was compiled for them, and whether compiled code
runs at all.

The story is that of a server which sees one shape after another: Dynamo begins with nothing, and
what it learnt at one shape stays for the next. Inductor's cache on disk would hide the stalls of a
first deployment, so it is an empty one by default.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch

from foretrace.ladder._climb import compiler
from foretrace.profiling.calls import batch
from foretrace.profiling.compiling import CompileWatch
from foretrace.schema import compiled

# CUDA graphs are recorded in the second call and replayed from the third on.
FIRST_CALLS = 3


@dataclass(frozen=True, slots=True)
class Arrival:
    """The first calls at a shape. `recompiles` and `gave_up` hold Dynamo's reasons, `graph_breaks`
    a count for each.
    """

    calls_ns: tuple[int, ...]
    compile_s: float
    graphs: int
    graph_breaks: dict[str, int]
    recompiles: tuple[str, ...]
    gave_up: tuple[str, ...]

    @property
    def hit_limit(self) -> bool:
        """Whether Dynamo compiled this too often already: recompile_limit in torch 2.6 and later,
        cache_size_limit before.
        """
        return any("limit" in why for why in self.gave_up)

    def stall_ns(self, warm_ns: float) -> float:
        """What the first calls took beyond warm ones."""
        return max(sum(self.calls_ns) - len(self.calls_ns) * warm_ns, 0)


def arrive(call: Callable[[], object]) -> Arrival:
    """Make the first calls, each timed until the device is idle."""
    watch = CompileWatch()
    calls = tuple(batch(call, 1)[0] for _ in range(FIRST_CALLS))
    seen = watch.report()
    reasons = (tuple(seen[name]) for name in ("recompiles", "gave_up"))
    return Arrival(calls, seen["seconds"], seen["graphs"], seen["graph_breaks"], *reasons)


def runs_compiled(call: Callable[[], object], arrivals: Sequence[Arrival]) -> bool:
    """Whether a call enters compiled code. `arrivals` are all so far, this one included.

    As long as Dynamo gave nothing up it does. After that a call may find what was compiled for an
    older shape, or nothing: Dynamo names each entry while a profiler runs, so one call under a
    profiler tells.
    """
    if not any(arrival.gave_up for arrival in arrivals):
        return any(arrival.graphs for arrival in arrivals)
    with torch.autograd.profiler.profile() as seen:
        call()
    return any(event.name.startswith(compiled.REGION) for event in seen.function_events)


@contextlib.contextmanager
def fresh_compiler(keep_cache: bool) -> Iterator[None]:
    """Dynamo as in a new process; with an empty cache on disk (and of Triton) unless the user's own
    is to be kept.
    """
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
        except Exception as caught:
            problem = caught
    if problem is not None:
        raise problem


def start_compiler(device: str) -> int:
    """Nanoseconds for the first compilation of this process, of `x + 1`: imports and probes that no
    program should pay for.
    """
    compiled: Any = compiler("default", device)(lambda x: x + 1)
    x = torch.ones(8, device=device)
    began = perf_counter_ns()
    with fresh_compiler(keep_cache=False):
        compiled(x)
    return perf_counter_ns() - began


def recompile_limit() -> int | None:
    """How many times Dynamo compiles one function; the name of the setting changed in torch 2.6."""
    from torch._dynamo import config

    found = getattr(config, "recompile_limit", None) or getattr(config, "cache_size_limit", None)
    return None if found is None else int(found)
