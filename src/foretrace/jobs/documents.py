"""`foretrace job TRACES --json`: the ranks of one job, who waits for whom, and what is exposed."""

from __future__ import annotations

from msgspec import Struct

from foretrace.look.documents import LookVerdict
from foretrace.read.ledger import LeftOut, NoteEntry

SCHEMA = 1


class JobEntry(Struct, frozen=True):
    """What was read. `ranks` counts the ranks read, `world_size` is what their headers say.

    `hosts` counts those that files name; 0 where none does. `steps` are the steps of the answer,
    empty for a recording without any. `step_ns` is the mean over the steps of the longest rank's
    time, as all times of ranks are means, and `median_step_ns` the median. `kernels` counts those
    of all ranks. `of_world` counts the ranks read whose number is below `world_size`.
    """

    path: str
    ranks: int
    world_size: int | None
    hosts: int
    devices: list[str]
    steps: list[int]
    step_ns: int | None
    file_bytes: int
    events: int
    median_step_ns: int | None = None
    kernels: int = 0
    of_world: int | None = None

    @property
    def missing(self) -> int:
        """The ranks of the job that were not read; 0 where no header says how many it has."""
        known = self.ranks if self.of_world is None else self.of_world
        return max((self.world_size or 0) - known, 0)


class JobVerdict(LookVerdict, frozen=True):
    """The answer in words: what holds the job up, what to do first, and what then.

    `bound` is straggler, slow_host, slow_link, balanced, inconclusive (within the clocks' error, or
    a rank could not be judged) or unknown.
    `first` and `then` are empty where the traces prove no fix.
    """


class JobClock(Struct, frozen=True):
    """How a rank's clock differs from that of the lowest rank; `collectives` counts those that the
    fit used.

    A time on this rank less `offset_ns`, less `drift_ppm` over the time since `at_ns`, is the time
    on the lowest rank, within `error_ns`. Where it is not `fitted` no collective links the two.
    """

    offset_ns: int | None
    drift_ppm: float | None
    error_ns: int | None
    fitted: bool
    collectives: int
    at_ns: int | None = None


class JobRank(Struct, frozen=True):
    """One rank. Times are means per step; `wall_ns` is compute, exposed, copy and idle together.

    `compute_ns` includes `both_ns`, in which communication runs under compute. `exposed_ns` is
    communication without compute. `data_ns` and `host_ns` are the parts of `idle_ns` in which the
    launching thread was in the data loader, and elsewhere. In collectives, `wait_ns` is the time
    until the last rank came and `transfer_ns` the rest; `exposed_wait_ns` is the part of the wait
    without compute. `made_others_wait_ns` sums over the other ranks; `delays_ns` counts the same
    wait once, from the median arrival on, and `exposed_delays_ns` the part that can lengthen a
    step: at most the exposed communication of the usual rank. `cause` says why the rank came last,
    `causes` with the share of the delay. `slow` is gpu (the same kernels take longer), code (more
    or other kernels), host (more idle time) or empty; `kernel_ratio` is the time of its kernels to
    that of the same kernels on the median rank.
    """

    rank: int
    path: str
    host: str
    device: str
    steps: int
    wall_ns: int | None
    compute_ns: int | None
    exposed_ns: int | None
    both_ns: int | None
    copy_ns: int | None
    idle_ns: int | None
    data_ns: int | None
    host_ns: int | None
    wait_ns: int | None
    transfer_ns: int | None
    made_others_wait_ns: int | None
    delays_ns: int | None
    times_last: int
    collectives: int
    cause: str
    causes: dict[str, float]
    slow: str
    kernel_ratio: float | None
    clock: JobClock
    exposed_wait_ns: int | None = None
    exposed_delays_ns: int | None = None


class JobCell(Struct, frozen=True):
    """One rank in one step; the heat map draws these. The others wait `delays_ns` for it."""

    rank: int
    step: int
    wall_ns: int
    compute_ns: int
    exposed_ns: int
    idle_ns: int
    wait_ns: int | None
    whole: bool
    delays_ns: int | None = None


class JobHost(Struct, frozen=True):
    """One host: how often one of its ranks came last, and whether most of them do (`slow`)."""

    host: str
    ranks: int
    times_last: int
    made_others_wait_ns: int
    delays_ns: int
    cause: str
    slow: bool
    exposed_delays_ns: int | None = None


class JobOverlap(Struct, frozen=True):
    """Communication of one group and kind, per step of each of its `ranks`: what compute hides.

    `wait_ns` is the part of `exposed_ns` in which a rank waited for others, at most; null where it
    is not known.
    """

    group: str
    collective: str
    count: float
    total_ns: int
    exposed_ns: int
    wait_ns: int | None
    ranks: int = 1


class JobBubble(Struct, frozen=True):
    """A pipeline stage: how long its ranks wait for other stages and do nothing else, per step."""

    stage: int
    ranks: list[int]
    bubble_ns: int
    share: float


class JobSegment(Struct, frozen=True):
    """A part of the critical path, on the clock of the lowest rank, from the step's start."""

    rank: int
    kind: str
    name: str
    start_ns: int
    end_ns: int


class JobWhatIf(Struct, frozen=True):
    """What a replay of the step saves, an estimate: `kind` is collective (all of them in a kind of
    group take no time), rank or ranks (at the median of their stage), or host, group or link (a
    slow one with the bandwidth of its equals). `ranks` names the ranks of the first two.
    """

    kind: str
    what: str
    rank: int | None
    saves_ns: int
    ranks: list[int] = []


class JobPath(Struct, frozen=True):
    """The critical path through one step: no rank can end the step before it.

    `kinds` has the time of the path by kind; `comms` is a collective that not all its ranks
    recorded, in which a wait may be. `error_ns` is what the clocks leave open, and `compared`
    counts the ranks whose clocks compare: no other can be on the path.
    """

    step: int
    length_ns: int
    ranks: list[int]
    kinds: dict[str, int]
    segments: list[JobSegment]
    what_ifs: list[JobWhatIf]
    error_ns: int | None = None
    compared: int | None = None


class JobNetwork(Struct, frozen=True):
    """Collectives of one kind, type, message size and group: bandwidths of the transfer alone.

    Waits for late ranks are taken out. Bandwidths are those of nccl-tests in 10^9 bytes per second:
    the median, and that of the fastest. They are lower bounds (`at_least`) where ranks of the group
    were not read: the wait for those is not known.
    """

    collective: str
    dtype: str
    message_bytes: int
    group: str
    group_size: int | None
    count: int
    transfer_ns: float
    algorithm_gbps: float
    bus_gbps: float
    best_bus_gbps: float
    total_ns: int = 0
    at_least: bool = False


class JobOutlier(Struct, frozen=True):
    """A group, link or host whose bandwidth lies below that of its equals."""

    kind: str
    what: str
    collective: str
    message_bytes: int
    bus_gbps: float
    usual_gbps: float
    count: int


class JobOddity(NoteEntry, frozen=True):
    """Why the traces may not be one whole job: ranks missing, double, or of other runs; ranks with
    other kernels or shapes; cut steps; collectives that only some ranks recorded.

    `ranks` names the ranks concerned, at most 64; `count` has them all.
    """

    ranks: list[int]


class JobDocument(Struct):
    """The document. Lists are in order of rank or step, tables with the largest time first.

    `collectives` counts the collectives of all ranks, `matched` those found on several (one for all
    of them), `unnamed` those without a group, `by_order` those of them that were
    matched by order because the traces have no sequence numbers, `undecided` those whose ranks came
    within the clocks' error. `perfect_overlap_ns` is what a step would save at most if compute hid
    all communication.
    """

    schema: int
    job: JobEntry
    ranks: list[JobRank]
    hosts: list[JobHost]
    cells: list[JobCell]
    matched: int
    by_order: int
    undecided: int
    perfect_overlap_ns: int | None
    overlap: list[JobOverlap]
    bubbles: list[JobBubble]
    path: JobPath | None
    network: list[JobNetwork]
    outliers: list[JobOutlier]
    same: list[JobOddity]
    notes: list[NoteEntry]
    left_out: list[LeftOut]
    collectives: int = 0
    unnamed: int = 0
    verdict: JobVerdict = JobVerdict("unknown", "")


DOCUMENTS = {"job": JobDocument}
