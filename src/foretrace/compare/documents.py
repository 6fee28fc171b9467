"""`foretrace compare --json`: what changed between two traces, and whether it pays off."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from foretrace.read.compiler import records as compiled
from foretrace.read.ledger import LedgerEntry
from foretrace.trace.metadata import TraceEntry
from foretrace.work.kernel_row import KernelRow

SCHEMA = 4


class ComparedUnit(Struct, frozen=True):
    """What was compared: `kind` is region, step or trace; `name` is the region's."""

    kind: str
    name: str | None
    repeats: int


class UnitCounts(Struct, frozen=True):
    """Counts of one repeat of the unit."""

    kernels: int
    memcpys: int
    memsets: int
    launches: int
    gpu_idle_ns: float | None


class ComparedTrace(TraceEntry):
    """One trace as `look` names it, and what of it was compared."""

    ledger: LedgerEntry
    unit: ComparedUnit
    per_unit: UnitCounts


class ChangeEntry(Struct, frozen=True):
    """Medians of A and B, B over A, and the noise as a fraction."""

    a: float | None
    b: float | None
    ratio: float | None
    noise: float | None

    @property
    def beyond(self) -> bool | None:
        """Whether the change is larger than the noise, which reads the same from both ends; None
        when a time or the noise is unknown.
        """
        if self.a is None or self.b is None or self.noise is None:
            return None
        larger = max(self.a, self.b)
        return larger > 0 and 1 - min(self.a, self.b) / larger > self.noise

    @property
    def saved(self) -> float | None:
        """A less B."""
        return None if self.a is None or self.b is None else self.a - self.b


class LaunchConfig(Struct, frozen=True):
    """How a kernel was launched; None where a trace does not record it."""

    grid: str | None = None
    block: str | None = None
    registers: int | None = None
    shared_memory: int | None = None


class LaunchedKernel(Struct, frozen=True):
    """A kernel of one trace, and how it was launched."""

    kernel: KernelRow
    config: LaunchConfig


class ComparedKernel(LaunchedKernel, frozen=True):
    """Launches per unit, and the time of one; `to` is the kernel of B where it changed."""

    a: int
    b: int
    median_ns: ChangeEntry
    to: LaunchedKernel | UnsetType = UNSET
    why: list[str] | UnsetType = UNSET


class ComparedKernels(Struct, frozen=True):
    """Every kernel of a typical repeat is in one of these."""

    same: list[ComparedKernel]
    changed: list[ComparedKernel]
    removed: list[ComparedKernel]
    added: list[ComparedKernel]


class TimePair(Struct, frozen=True):
    """A time in A and in B."""

    a: float
    b: float

    @property
    def saved(self) -> float:
        """A less B."""
        return self.a - self.b


class ComparedOp(Struct, frozen=True):
    """Calls of an op per unit, its self CPU time, and the time of the kernels it launched.

    `apart`: its self CPU time in every repeat of one trace is below that in every repeat of the
    other; null where one of them has fewer than two.
    """

    name: str
    a: int
    b: int
    self_cpu_ns: TimePair
    gpu_ns: TimePair
    apart: bool | None = None

    @property
    def by_compiler(self) -> bool:
        """Whether torch.compile wrote this row around the code that it compiled."""
        return compiled.is_row(self.name)


class ComparedOps(Struct, frozen=True):
    """Each op is in one of the three: called less often in B, more often, or as often."""

    removed: tuple[ComparedOp, ...]
    added: tuple[ComparedOp, ...]
    same: tuple[ComparedOp, ...]


class FusionEntry(Struct, frozen=True):
    """One kernel of B and the ops of A that it replaces. `sign` says how that is known: `mapping`
    (the compiler's records, which give the lines in `sources`), `name`, `epilogue`, `merged`,
    `place`.
    """

    kernel: str
    backend: str
    replaces: tuple[str, ...]
    bytes_saved: int | None
    ns_saved: float | None
    count: int
    sign: str
    sources: tuple[str, ...] = ()


class WorkRow(Struct, frozen=True):
    """GPU work of A and what replaces it in B, per unit; the same in `times` places.

    `fate` is same, changed (one for one), replaced, removed or added; `how` says what differs.
    `even` where all places have as many kernels. `a` and `b` count kernels, memcpys and memsets,
    `copies_a` and `copies_b` the last two of them; over all entries counts and times add up to the
    whole of each side. Times are those of a typical repeat; None where one of them is unknown.
    """

    group: str
    fate: str
    how: str
    times: int
    even: bool
    a: int
    b: int
    copies_a: int
    copies_b: int
    ns_a: int | None
    ns_b: int | None


class WorkEntry(WorkRow, frozen=True):
    """The same with its sentence."""

    text: str


class CompareVerdict(Struct, frozen=True):
    """Whether B is faster: `answer` is faster, slower, same, inconclusive or different (programs).

    `basis` is what decides: run records, bounds (GPU time below, profiled time above) or traces.
    `saves_at_least_ns` and `saves_at_most_ns` are per unit; negative where B is slower.
    """

    answer: str
    text: str
    basis: str
    saves_at_least_ns: float | None = None
    saves_at_most_ns: float | None = None


class Worth(Struct, frozen=True):
    """What one call saves at least (negative: costs), what the change costs once, the break-even.

    `saves_ns_per_call` is None where the traces do not decide.
    """

    saves_ns_per_call: float | None
    cost_s: float | None
    break_even_calls: int | None
    text: str


class MarkedFix(Struct, frozen=True):
    """The fixes that B has and A lacked: what the replay of A predicted, and the step of B.

    Times are of a step without the profiler, in ns. `hit`: the measured time is inside the
    interval, or within 30% of the prediction.
    """

    fixes: list[str]
    orders: list[str]
    before_ns: float
    predicted_ns: float
    low_ns: float
    high_ns: float
    measured_ns: float
    hit: bool


class CompareDocument(Struct, frozen=True):
    """B compared with A; `others` compares each further trace with A.

    `bare_...` are times without the profiler, present where both run records have them;
    `published` is what the articles print of their A100, where the traces are their programs.
    """

    schema: int
    a: ComparedTrace
    b: ComparedTrace
    kernels: ComparedKernels
    ops: ComparedOps
    fusions: list[FusionEntry]
    gpu_ns: ChangeEntry
    cpu_ns: ChangeEntry
    wall_ns: ChangeEntry
    changed: list[str]
    unchanged: list[str]
    worth: Worth
    verdict: CompareVerdict
    work: list[WorkEntry]
    bare_wall_ns: ChangeEntry | UnsetType = UNSET
    bare_host_ns: ChangeEntry | UnsetType = UNSET
    others: list[CompareDocument] | UnsetType = UNSET
    predicted: MarkedFix | UnsetType = UNSET
    published: str | UnsetType = UNSET


DOCUMENTS = {"compare": CompareDocument}
