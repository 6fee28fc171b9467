"""What a plan leads to, on one true clock.

A kernel starts when its launch has arrived and its stream is free. A collective starts on a rank
when its inputs are ready there, moves data once the last rank has started, and ends on all ranks
together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from jobs.plan.layout import Group, groups
from jobs.plan.plan import Plan
from jobs.plan.program import BYTES, Await, Begin, Copy, End, Kernel, Talk, Work, program

LAUNCH_NS = 6_000  # what a launch costs the host
LATENCY_NS = 3_000  # from the launch to the GPU
COMPUTE = 7  # the stream
FACTORS = {"allreduce": 2.0, "_allgather_base": 1.0, "_reduce_scatter_base": 1.0}


class Collective(Struct):
    """A collective as it happens; `end_ns` is None until all ranks have come."""

    group: Group
    kind: str
    members: tuple[int, ...]
    seq: int
    step: int
    message_bytes: int
    bus_gbps: float
    transfer_ns: int
    starts: dict[int, int]
    places: dict[int, int]  # where it is in what a rank did
    last_ns: int = 0
    end_ns: int | None = None


class Done(Struct, frozen=True):
    """What a rank did: on the host, and on the GPU where `stream` is not None.

    `after` is where the GPU work lies that this work had to wait for; None if its launch came last.
    """

    what: Work | Kernel | Copy | Talk | Begin | End
    step: int
    host_ns: int
    host_end_ns: int
    stream: int | None = None
    start_ns: int = 0
    end_ns: int = 0
    seq: int = 0
    after: int | None = None


class Simulation(Struct):
    plan: Plan
    groups: list[Group]
    collectives: dict[tuple[object, ...], Collective]
    done: dict[int, list[Done]]
    arrivals: int = 0


def simulate(plan: Plan) -> Simulation:
    """Run all ranks until each has finished."""
    whole = Simulation(plan, groups(plan), {}, {rank: [] for rank in range(plan.world)})
    running = {rank: _Rank(whole, rank).run() for rank in range(plan.world)}
    while running:
        before = whole.arrivals
        running = {rank: each for rank, each in running.items() if next(each, "over") != "over"}
        if running and before == whole.arrivals:
            raise RuntimeError("the plan never ends: ranks wait for one another")
    return whole


class _Rank:
    """One rank while it runs; it yields while it needs a collective that is not over."""

    def __init__(self, whole: Simulation, rank: int) -> None:
        self.whole, self.plan, self.rank = whole, whole.plan, rank
        self.now, self.step = whole.plan.start_ns, 0
        self.out = whole.done[rank]
        self.free: dict[int, tuple[int, int | None]] = {COMPUTE: (self.now, None)}
        self.pending: dict[int, Collective] = {}
        self.streams: dict[tuple[str, int | None], int] = {}
        self.seqs: Counter[tuple[str, bool]] = Counter()
        self.chance = Random(whole.plan.seed * 1_000_003 + rank)

    def run(self) -> Iterator[None]:
        own = [group for group in self.whole.groups if self.rank in group.ranks]
        for what in program(self.plan, self.rank, own):
            match what:
                case Begin(step):
                    self.step = step
                    self._on_host(what, LAUNCH_NS + self._noise(self.plan.host_noise_ns))
                case Work(_, ns):
                    self._on_host(what, ns)
                case Kernel(ns=ns):
                    self._on_gpu(what, ns + self._noise(self.plan.kernel_noise_ns))
                case Copy(ns):
                    self._on_gpu(what, ns)
                case Talk():
                    yield from self._talk(what)
                case Await(group, peer):
                    stream = self._stream(group, peer)
                    yield from self._over(stream)
                    self.free[COMPUTE] = max(self.free[COMPUTE], self.free[stream], key=_time)
                case End():
                    yield from self._end(what)
        for stream in list(self.pending):
            yield from self._over(stream)

    def _on_host(self, what: Begin | Work | End, ns: int) -> None:
        self.out.append(Done(what, self.step, self.now, self.now + ns))
        self.now += ns

    def _on_gpu(self, what: Kernel | Copy, ns: int) -> None:
        start, after = self._ready(COMPUTE)
        self.free[COMPUTE] = start + ns, len(self.out)
        self._launched(Done(what, self.step, self.now, 0, COMPUTE, start, start + ns, 0, after))

    def _launched(self, done: Done) -> None:
        self.now += LAUNCH_NS
        self.out.append(replace(done, host_end_ns=self.now))

    def _ready(self, *streams: int) -> tuple[int, int | None]:
        """When the launch of now can start, and after which work."""
        arrived = self.now + LATENCY_NS, None
        return max(arrived, *(self.free[stream] for stream in streams), key=_time)

    def _talk(self, what: Talk) -> Iterator[None]:
        stream = self._stream(what.group, what.peer)
        yield from self._over(stream)
        start, after = self._ready(COMPUTE, stream)
        counted = what.group.name, what.peer is not None
        self.seqs[counted] += 1
        collective = self._collective(what, self.seqs[counted])
        collective.starts[self.rank], collective.places[self.rank] = start, len(self.out)
        self.whole.arrivals += 1
        self.pending[stream] = collective
        seq = self.seqs[counted]
        self._launched(Done(what, self.step, self.now, 0, stream, start, 0, seq, after))
        if len(collective.starts) == len(collective.members):
            collective.last_ns = max(collective.starts.values())
            collective.end_ns = collective.last_ns + collective.transfer_ns

    def _over(self, stream: int) -> Iterator[None]:
        """Wait until the last collective on a stream is over."""
        collective = self.pending.pop(stream, None)
        if collective is None:
            return
        while collective.end_ns is None:
            yield
        end, at = (
            collective.end_ns + self._noise(self.plan.end_noise_ns),
            collective.places[self.rank],
        )
        self.out[at] = replace(self.out[at], end_ns=end)
        self.free[stream] = end, at

    def _end(self, what: End) -> Iterator[None]:
        if self.plan.sync:
            for stream in list(self.pending):
                yield from self._over(stream)
            last = max(self.free.values(), key=_time)[0]
            self._on_host(what, max(last - self.now, 0) + LAUNCH_NS)
        else:
            self._on_host(what, LAUNCH_NS)

    def _stream(self, group: Group, peer: int | None) -> int:
        stream = self.streams.setdefault((group.name, peer), 20 + 4 * len(self.streams))
        self.free.setdefault(stream, (self.plan.start_ns, None))
        return stream

    def _noise(self, most: int) -> int:
        return self.chance.randrange(most + 1) if most else 0

    def _collective(self, talk: Talk, seq: int) -> Collective:
        found = self.whole.collectives.get(talk.key)
        if found is None:
            peer = talk.peer
            pair = () if peer is None else tuple(sorted((self.rank, peer)))
            members = pair or talk.group.ranks
            size = max(talk.in_elements, talk.out_elements) * BYTES
            rate = self.plan.slow_groups.get(talk.group.name, rate_of(self.plan, members))
            spent = transfer_ns(size, members, talk.kind, rate)
            chance = Random(f"{self.plan.seed} {talk.key}")
            spent += round(spent * self.plan.rate_noise * chance.random())
            kind = "send" if pair else talk.kind
            found = Collective(talk.group, kind, members, seq, self.step, size, rate, spent, {}, {})
            self.whole.collectives[talk.key] = found
        return found


def _time(at: tuple[int, int | None]) -> int:
    return at[0]


def rate_of(plan: Plan, members: tuple[int, ...]) -> float:
    """The bus bandwidth of the slowest host."""
    hosts = {plan.host(rank) for rank in members}
    return min(plan.slow_hosts.get(host, plan.bus_gbps) for host in hosts)


def transfer_ns(size: int, members: tuple[int, ...], kind: str, rate: float) -> int:
    """The time of a message at a bus bandwidth, as nccl-tests counts it."""
    count = len(members)
    factor = FACTORS[kind] * (count - 1) / count if kind in FACTORS else 1.0
    return round(size * factor / rate)
