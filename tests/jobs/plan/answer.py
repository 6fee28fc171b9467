"""The truth about a simulated job, from the simulation alone and on its true clock."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from jobs.plan.critical import Segment, critical
from jobs.plan.kineto import local_ns
from jobs.plan.plan import Plan
from jobs.plan.program import Copy, Kernel, Talk, Work
from jobs.plan.simulate import Done, Simulation, simulate

Interval = tuple[int, int]


class Met(Struct, frozen=True):
    """A collective. `step` is numbered as in the files, `seq` is None for send and receive: each
    rank counts those for itself. `last` has every rank that came last. `bus_gbps` is that of the
    plan, before noise.
    """

    group: str
    collective: str
    seq: int | None
    step: int
    message_bytes: int
    bus_gbps: float
    transfer_ns: int
    starts_ns: dict[int, int]
    waits_ns: dict[int, int]
    last: tuple[int, ...]
    end_ns: int


class StepTimes(Struct, frozen=True):
    """A step of a rank: from the end of its GPU work in the step before to the end in this one."""

    wall_ns: int
    compute_ns: int
    comms_ns: int
    both_ns: int
    copy_ns: int
    idle_ns: int
    data_ns: int

    @property
    def exposed_ns(self) -> int:
        return self.comms_ns - self.both_ns


class Answer(Struct, frozen=True):
    """`files` by rank; a rank whose file is missing has none."""

    plan: Plan
    files: dict[int, Path]
    collectives: list[Met]
    steps: dict[tuple[int, int], StepTimes]  # (rank, step)
    offsets_ns: dict[int, int]  # clock of the rank minus that of the lowest, at the start
    drifts_ppm: dict[int, float]
    paths: dict[int, list[Segment]]  # by step


def answer(simulation: Simulation, files: dict[int, Path]) -> Answer:
    """The truth about a simulation."""
    plan = simulation.plan
    first = plan.clock(0)
    return Answer(
        plan,
        files,
        collectives(simulation),
        {key: times for rank in simulation.done for key, times in _steps(simulation, rank)},
        {rank: local_ns(plan, rank, plan.start_ns) - local_ns(plan, 0, plan.start_ns)
         for rank in range(plan.world)},
        {rank: plan.clock(rank).drift_ppm - first.drift_ppm for rank in range(plan.world)},
        {step + plan.first_step: critical(simulation, step) for step in range(plan.steps)},
    )  # fmt: skip


def slowdown(plan: Plan) -> dict[int, int]:
    """What the delays of a plan cost each step, in nanoseconds: the step with them, less the same
    step without them.
    """
    slow, swift = (walls(simulate(each)) for each in (plan, replace(plan, delays=())))
    return {step + plan.first_step: slow[step] - swift[step] for step in range(plan.steps)}


def walls(simulation: Simulation) -> list[int]:
    """The length of each step, from end to end of the last GPU work."""
    ends = [simulation.plan.start_ns]
    for step in range(simulation.plan.steps):
        done = (each for rank in simulation.done.values() for each in rank)
        ends.append(max(each.end_ns for each in done if each.step == step))
    return [end - begin for begin, end in pairwise(ends)]


def collectives(simulation: Simulation) -> list[Met]:
    """Every collective, in the order of their ends."""
    found = []
    for collective in simulation.collectives.values():
        assert collective.end_ns is not None
        pair = collective.kind == "send"
        found.append(
            Met(
                collective.group.name,
                collective.kind,
                None if pair else collective.seq,
                collective.step + simulation.plan.first_step,
                collective.message_bytes,
                collective.bus_gbps,
                collective.transfer_ns,
                collective.starts,
                {rank: collective.last_ns - at for rank, at in collective.starts.items()},
                tuple(sorted(r for r, at in collective.starts.items() if at == collective.last_ns)),
                collective.end_ns,
            )
        )
    return sorted(found, key=lambda met: met.end_ns)


def _steps(simulation: Simulation, rank: int) -> list[tuple[tuple[int, int], StepTimes]]:
    plan, found, since = simulation.plan, [], None
    for step in range(plan.steps):
        inside = [each for each in simulation.done[rank] if each.step == step]
        begun = inside[0].host_ns if since is None else since
        until = max(each.end_ns for each in inside if each.stream is not None)
        found.append(((rank, step + plan.first_step), _times(inside, begun, until)))
        since = until
    return found


def _times(inside: list[Done], begun: int, until: int) -> StepTimes:
    def of(*kinds: type) -> list[Interval]:
        found = [each for each in inside if isinstance(each.what, kinds)]
        gpu = [(each.start_ns, each.end_ns) for each in found if each.stream is not None]
        return union(gpu or [(each.host_ns, each.host_end_ns) for each in found])

    compute, comms = of(Kernel), of(Talk)
    busy = union([*compute, *comms, *of(Copy)])
    idle = minus([(begun, until)], busy)
    loading = [
        work for work in inside if isinstance(work.what, Work) and "Loader" in work.what.name
    ]
    data = union([(each.host_ns, each.host_end_ns) for each in loading])
    return StepTimes(
        until - begun,
        length(compute),
        length(comms),
        length(compute) + length(comms) - length(union([*compute, *comms])),
        length(minus(busy, union([*compute, *comms]))),
        length(idle),
        length(idle) - length(minus(idle, data)),
    )


def union(intervals: list[Interval]) -> list[Interval]:
    """Intervals as disjoint ones in order."""
    out: list[Interval] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


def minus(whole: list[Interval], taken: list[Interval]) -> list[Interval]:
    """What of disjoint intervals lies outside of others."""
    for start, end in taken:
        cut = []
        for a, b in whole:
            cut += [(a, min(b, start)), (max(a, end), b)]
        whole = [(a, b) for a, b in cut if a < b]
    return whole


def length(intervals: list[Interval]) -> int:
    return sum(end - start for start, end in intervals)
