"""The longest chain of work in a step of a simulated job, found from what each work waited for."""

from __future__ import annotations

from msgspec import Struct

from jobs.plan.program import LOADER, Copy, Talk, Work
from jobs.plan.simulate import Done, Simulation


class Segment(Struct, frozen=True):
    """A piece of the path; `kind` is compute, comms, copy, data or host."""

    rank: int
    kind: str
    start_ns: int
    end_ns: int


def critical(simulation: Simulation, step: int) -> list[Segment]:
    """The path of a step (from 0), in order: from the start of its host range on one rank to the
    end of its last GPU work, without a gap. Where the host ran ahead it starts with the first work
    that waited for the step before.
    """
    _, rank, at = max(
        (each.end_ns, -rank, at)
        for rank, done in simulation.done.items()
        for at, each in enumerate(done)
        if each.step == step and each.stream is not None
    )
    return _back(simulation, -rank, at, step)


def _back(simulation: Simulation, rank: int, at: int, step: int) -> list[Segment]:
    found: list[Segment] = []
    while True:
        done = simulation.done[rank]
        item, until = done[at], done[at].end_ns
        if isinstance(item.what, Talk):
            collective = simulation.collectives[item.what.key]
            found.append(Segment(rank, "comms", collective.last_ns, until))
            if rank not in _last(collective.starts):
                rank = min(_last(collective.starts))
                at = collective.places[rank]
                done = simulation.done[rank]
                item = done[at]
        else:
            kind = "copy" if isinstance(item.what, Copy) else "compute"
            found.append(Segment(rank, kind, item.start_ns, until))
        if item.after is None:
            return [*_on_the_host(done, rank, item, step), *reversed(found)]
        if done[item.after].step != step:
            return found[::-1]
        at = item.after


def _on_the_host(done: list[Done], rank: int, launched: Done, step: int) -> list[Segment]:
    """From the start of the step to the arrival of a launch on the GPU."""
    before = [each for each in done if each.step == step and each.host_ns <= launched.host_ns]
    cuts = [(each.host_ns, _kind(each)) for each in before]
    ends = [start for start, _ in cuts[1:]] + [launched.start_ns]
    segments: list[Segment] = []
    for (start, kind), end in zip(cuts, ends, strict=True):
        if segments and segments[-1].kind == kind:
            start = segments.pop().start_ns
        segments.append(Segment(rank, kind, start, end))
    return segments


def _kind(each: Done) -> str:
    return "data" if isinstance(each.what, Work) and each.what.name == LOADER else "host"


def _last(starts: dict[int, int]) -> set[int]:
    latest = max(starts.values())
    return {rank for rank, at in starts.items() if at == latest}
