"""`foretrace counters --json`: what Nsight Compute counted, kernel by kernel of a trace."""

from __future__ import annotations

from msgspec import Struct


class LevelBytes(Struct, frozen=True):
    """Bytes by level of memory, of one launch or of all; None for what was not counted.

    `l2` is between multiprocessors and L2, `l2_lookups` all that L2 looked up, `l2_fabric` the part
    of it that passes between the partitions of L2. `kept_in_l2` is what multiprocessors read and
    HBM did not, `kept_in_l1` what threads moved and L2 did not see.
    """

    hbm_read: float | None
    hbm_written: float | None
    l2: float | None
    l2_read: float | None
    l2_written: float | None
    l2_lookups: float | None
    l2_fabric: float | None
    l1: float | None
    shared: float | None
    kept_in_l2: float | None
    kept_in_l1: float | None


class ReachedRoof(Struct, frozen=True):
    """The rate of a kernel beside a roof: `hbm`, `l2`, `shared`, or `tensor bf16`.

    Rates are bytes or operations per second. `roof` and `share` are unknown (None) without a roof.
    Operations of tensor cores are those of the shapes where `tensor_operations` is empty.
    """

    level: str
    rate: float
    roof: float | None
    share: float | None


class CountedKernel(Struct, frozen=True):
    """All launches of one kernel with the same op and shapes; numbers are means of a launch.

    `joined` is how many launches are kernels of the trace. `time_ns` is from the trace, `ncu_ns`
    under Nsight Compute. `must_move` is what the op must move, from its shapes, and `certainty` how
    far that can be trusted. `nearest` is the level with the largest share.
    """

    kernel: str
    name: str
    op: str | None
    launches: int
    joined: int
    passes: int
    time_ns: float | None
    ncu_ns: float | None
    must_move: float | None
    certainty: str | None
    flop: float | None
    bytes: LevelBytes
    tensor_operations: dict[str, float]
    roofs: list[ReachedRoof]
    nearest: str | None
    text: str


class KnownRoof(Struct, frozen=True):
    """What a level can do at most, per second, and who says so."""

    level: str
    per_second: float
    source: str


class CountedRun(Struct, frozen=True):
    """One export: its launches, how many are joined, to what of the trace, and how it was made."""

    path: str
    launches: int
    joined: int
    compared: int
    place: str
    command: str | None
    note: str


class CountedTotal(Struct, frozen=True):
    """All counted launches together; a sum is None where a launch lacks the value.

    `exact` says whether `must_move` is exact for every launch; else it may be a lower bound.
    """

    launches: int
    time_ns: float | None
    must_move: float | None
    exact: bool
    bytes: LevelBytes


class ReplacedKernels(Struct, frozen=True):
    """Kernels that one side alone has."""

    kernels: list[str]
    total: CountedTotal


class MeasuredSaving(Struct, frozen=True):
    """This run beside an earlier one: totals, what changed, and sentences about it."""

    path: str
    before: CountedTotal
    after: CountedTotal
    gone: ReplacedKernels
    new: ReplacedKernels
    sentences: list[str]


class CountersDocument(Struct, frozen=True):
    """Every counted kernel, the one with most GPU time first."""

    schema: int
    trace: str
    device: str | None
    runs: list[CountedRun]
    roofs: list[KnownRoof]
    total: CountedTotal
    sentences: list[str]
    kernels: list[CountedKernel]
    notes: list[str]
    against: MeasuredSaving | None = None


DOCUMENT = CountersDocument
