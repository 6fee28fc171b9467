"""What a plan leads to, on one true clock.

A kernel starts when its launch has arrived and its stream is free. A collective starts on a rank
when its inputs are ready there, moves data once the last rank has started, and ends on all ranks
together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from jobs.plan.layout import Group, groups
from jobs.plan.plan import Plan
from jobs.plan.program import BYTES, Await, Begin, Copy, End, Kernel, Talk, Work, program

LAUNCH_NS = 6_000  # what a launch costs the host
LATENCY_NS = 3_000  # from the launch to the GPU
COMPUTE = 7  # the stream


class Meeting(Struct):
    """A collective as it happens; `ends_ns` is None until all ranks have come."""

    group: Group
    kind: str
    members: tuple[int, ...]
    seq: int
    step: int
    message_bytes: int
    transfer_ns: int
    starts: dict[int, int] = {}
    last_ns: int | None = None
    end_ns: int | None = None

    def arrive(self, rank: int, at: int) -> None:
        self.starts[rank] = at
        if len(self.starts) == len(self.members):
            self.last_ns = max(self.starts.values())
            self.end_ns = self.last_ns + self.transfer_ns


class Done(Struct, frozen=True):
    """What a rank did: on the host, and on the GPU where `stream` is not None."""

    what: Work | Kernel | Copy | Talk | Begin | End
    step: int
    host_ns: int
    host_end_ns: int
    stream: int | None = None
    start_ns: int = 0
    end_ns: int = 0
    seq: int = 0
    launch_ns: int = 0


class Simulation(Struct):
    plan: Plan
    groups: list[Group]
    meetings: dict[tuple[object, ...], Meeting]
    done: dict[int, list[Done]]


def simulate(plan: Plan) -> Simulation:
    """Run all ranks until each has finished."""
    whole = Simulation(plan, groups(plan), {}, {rank: [] for rank in range(plan.world)})
    running = {rank: _Rank(whole, rank).run() for rank in range(plan.world)}
    while running:
        met = len(whole.meetings), sum(len(m.starts) for m in whole.meetings.values())
        running = {rank: each for rank, each in running.items() if next(each, "over") != "over"}
        now = len(whole.meetings), sum(len(m.starts) for m in whole.meetings.values())
        if running and met == now:
            raise RuntimeError("the plan never ends: ranks wait for one another")
    return whole


class _Rank:
    """One rank while it runs; it yields while it needs a meeting that is not over."""

    def __init__(self, whole: Simulation, rank: int) -> None:
        self.whole, self.plan, self.rank = whole, whole.plan, rank
        self.now, self.step = whole.plan.start_ns, 0
        self.free = {COMPUTE: self.now}
        self.pending: dict[int, Meeting] = {}
        self.streams: dict[tuple[str, int | None], int] = {}
        self.seqs: Counter[tuple[str, bool]] = Counter()

    def run(self) -> Iterator[None]:
        out = self.whole.done[self.rank]
        late: list[tuple[int, Meeting, Done]] = []
        for what in program(self.plan, self.rank, self.whole.groups):
            begun = self.now
            match what:
                case Begin(step):
                    self.step = step
                    self.now += LAUNCH_NS
                    out.append(Done(what, step, begun, self.now))
                case Work(_, ns):
                    self.now += ns
                    out.append(Done(what, self.step, begun, self.now))
                case Kernel(ns=ns) | Copy(ns=ns):
                    self.now += LAUNCH_NS
                    start = max(begun + LATENCY_NS, self.free[COMPUTE])
                    self.free[COMPUTE] = start + ns
                    out.append(Done(what, self.step, begun, self.now, COMPUTE, start, start + ns))
                case Talk():
                    stream = self._stream(what.group, what.peer)
                    yield from self._over(stream)
                    self.now += LAUNCH_NS
                    ready = max(begun + LATENCY_NS, self.free[COMPUTE], self.free[stream])
                    self.seqs[what.group.name, what.peer is not None] += 1
                    seq = self.seqs[what.group.name, what.peer is not None]
                    meeting = self._meeting(what, seq)
                    meeting.arrive(self.rank, ready)
                    self.pending[stream] = meeting
                    item = Done(what, self.step, begun, self.now, stream, ready, ready, seq)
                    late.append((len(out), meeting, item))
                    out.append(item)
                case Await(group, peer):
                    stream = self._stream(group, peer)
                    yield from self._over(stream)
                    self.free[COMPUTE] = max(self.free[COMPUTE], self.free[stream])
                case End(step):
                    for stream in list(self.pending):
                        yield from self._over(stream)
                    self.now = max(self.now, *self.free.values()) + LAUNCH_NS
                    out.append(Done(what, step, begun, self.now))
        for at, meeting, item in late:
            assert meeting.end_ns is not None
            out[at] = Done(
                item.what, item.step, item.host_ns, item.host_end_ns, item.stream, item.start_ns,
                meeting.end_ns, item.seq,
            )  # fmt: skip

    def _over(self, stream: int) -> Iterator[None]:
        """Wait until the last collective on a stream is over."""
        meeting = self.pending.pop(stream, None)
        if meeting is None:
            return
        while meeting.end_ns is None:
            yield
        self.free[stream] = meeting.end_ns

    def _stream(self, group: Group, peer: int | None) -> int:
        stream = self.streams.setdefault((group.name, peer), 20 + 4 * len(self.streams))
        self.free.setdefault(stream, self.plan.start_ns)
        return stream

    def _meeting(self, talk: Talk, seq: int) -> Meeting:
        found = self.whole.meetings.get(talk.key)
        if found is None:
            pair = (self.rank, talk.peer)
            members = talk.group.ranks if talk.peer is None else tuple(sorted(map(int, pair)))
            size = max(talk.in_elements, talk.out_elements) * BYTES
            spent = transfer_ns(self.plan, members, size, talk.kind)
            kind = talk.kind if talk.peer is None else "send"
            found = Meeting(talk.group, kind, members, seq, self.step, size, spent, {})
            self.whole.meetings[talk.key] = found
        return found


def transfer_ns(plan: Plan, members: tuple[int, ...], size: int, kind: str) -> int:
    """The time that a message takes on the slowest link of the ranks, as nccl-tests counts."""
    rates = [plan.slow_hosts.get(plan.host(rank), plan.bus_gbps) for rank in members]
    factor = 2 * (len(members) - 1) / len(members) if kind == "allreduce" else 1
    return round(size * factor / min(rates))
