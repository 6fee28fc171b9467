"""How long a warm call takes, without a profiler: several calls side by side, in turns.

Batches of the calls alternate, so that a machine that slows down slows all of them, and the spread
of the batches is the noise. `wall` is a call in a row of calls, host and device together; `host`
what the host needs to issue it; `gpu` the time between two CUDA events around one call whose
launches are already queued. A CPU has no `gpu`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from foretrace.comparison.measure import Sample, sample
from foretrace.kernels.timing import Times, device_times
from foretrace.profiling.calls import batch

# Eleven batches: chance takes fewer than 1 in 100 equal programs beyond the noise (see
# compare/measure). Calls so slow that they would take a minute get three.
ROUNDS, FEW_ROUNDS = 11, 3
BATCH_NS, PATIENCE_NS, MOST_CALLS = 50_000_000, 30_000_000_000, 100
IQR_OF_NORMAL = 1.349  # the quartiles of normal values lie this many standard deviations apart


@dataclass(frozen=True, slots=True)
class Pace:
    """Nanoseconds per call, each with its spread."""

    wall: Sample
    host: Sample
    gpu: Sample


def paces(calls: Mapping[str, Callable[[], object]], *, on_gpu: bool) -> dict[str, Pace]:
    """The pace of each call; all of them must be warm."""
    ones = {name: max(batch(call, 1)[0], 1) for name, call in calls.items()}
    rounds = ROUNDS if ROUNDS * sum(ones.values()) < PATIENCE_NS else FEW_ROUNDS
    counts = {name: max(1, min(MOST_CALLS, BATCH_NS // one)) for name, one in ones.items()}
    taken: dict[str, list[tuple[int, int]]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            taken[name].append(batch(calls[name], counts[name]))
    gpu = device_times(calls, rounds, cold=False) if on_gpu else {}
    return {
        name: Pace(
            sample([wall for wall, _ in taken[name]], 1),
            sample([host for _, host in taken[name]], 1),
            gpu_sample(gpu.get(name)),
        )
        for name in calls
    }


def gpu_sample(times: Times | None) -> Sample:
    """Microseconds with quartiles as nanoseconds with a spread."""
    if times is None:
        return Sample(None, None)
    return Sample(times.median * 1e3, (times.high - times.low) * 1e3 / IQR_OF_NORMAL)
