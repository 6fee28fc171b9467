"""`foretrace look TRACE --json`: what one trace holds, and what the rules found in it.
`foretrace look FOLDER --json`: every trace of a folder or zip.
`foretrace look --fixes --json`: a step without the profiler, and with each fix that applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from foretrace.base.display import Displayed
from foretrace.base.tables import Line
from foretrace.read.ledger import LedgerEntry, LeftOut, NoteEntry
from foretrace.trace.metadata import TraceEntry
from foretrace.work.kernel_row import KernelRow

SCHEMA = 4


class Finding(Displayed, Struct, frozen=True):
    """One thing a rule found, with its evidence.

    `state`: found (worth reading), clear (checked, nothing there), skipped (the trace lacks the
    data; `detail` names the capture option that supplies it), crashed (the rule failed; shown, and
    hides no other rule). `saves_ns` is what a fix saves as a replay of the step predicts it, and
    `at_most_ns` what it saves at best, per step where there are steps. Where no fix has a
    prediction, `at_most_ns` stands alone, an upper bound of the rule's. Never a promise.

    `events` are ids into the events table that prove it. `ranges` are the gaps that it is about,
    the longest first: start and end on the clock of that table, and the number of the GPU (0 is the
    first in the trace). `fix` is the change that a user would make, as an order (`CUDA graph
    (torch.cuda.make_graphed_callables)`); empty where the finding calls for none.
    """

    rule: str
    state: str
    title: str
    detail: str = ""
    at_most_ns: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[int, ...] = ()
    fix: str = ""
    ranges: tuple[tuple[int, int, int], ...] = ()
    saves_ns: int | None = None


class Findings(Displayed, list[Finding]):
    """A list of findings, which a notebook shows as a table."""


class Totals(Struct, frozen=True):
    """Counts and GPU time of the whole recording; times are null when no GPU event has one."""

    kernels: int
    memcpys: int
    memsets: int
    launches: int
    syncs: int
    gpu_busy_ns: int | None
    gpu_span_ns: int | None
    cpu_ops: int

    @property
    def busy_share(self) -> float | None:
        """GPU busy of the time from the first to the last GPU operation."""
        if self.gpu_busy_ns is None or not self.gpu_span_ns:
            return None
        return self.gpu_busy_ns / self.gpu_span_ns


class LookVerdict(Struct, frozen=True):
    """The answer: what bounds a step or call, what to do first, and what then.

    `first` and `then` are empty where the trace proves no fix.
    """

    bound: str
    text: str
    first: str = ""
    then: str = ""


class StepTime(Struct, frozen=True):
    """How long a step or call takes: as recorded, as its replay gives, and as it should be without
    the profiler, with an interval; all in ns.
    """

    recorded_ns: float
    replayed_ns: float
    ns: float
    low_ns: float
    high_ns: float


class FixEntry(Struct, frozen=True):
    """A change to the program, and the time of a step with it as predicted, without the profiler.

    `order` is what to do and `why` what was seen. `first` says what must go before this can be
    done; such a fix is never the first advice. `risk` is what the user must check. `after_ns` is
    the time of a step with the first fix and this one, `compiled_ns` that of a CUDA graph of fused
    kernels (`mode="reduce-overhead"`), where both apply. `code` is what to write; "" if unknown.
    """

    name: str
    order: str
    why: str
    ns: float
    low_ns: float
    high_ns: float
    after_ns: float | None = None
    first: str = ""
    risk: str = ""
    events: tuple[int, ...] = ()
    compiled_ns: float | None = None
    code: str = ""


class TimePart(Struct, frozen=True):
    """A part of a step: GPU work of one role (`busy`), GPU idle time of one cause (`idle`), or time
    of a CPU (`cpu`).
    """

    kind: str
    name: str
    ns: float


class Composition(Struct, frozen=True):
    """What a step consists of, or a call or the recording (`per`): `parts` add up to `wall_ns`.

    `recorded_ns` is the time with the profiler where `wall_ns` is predicted without it; idle time
    then has the shares of its causes in the recording.
    """

    per: str
    wall_ns: float
    parts: list[TimePart]
    recorded_ns: float | None = None


class GroupRow(Struct, frozen=True, rename={"time_ns": "time"}):
    """GPU work under the name that the model's author would use.

    `time` is in nanoseconds and, like `count`, per step where there are steps. `share` is of GPU
    time.
    """

    name: str
    time_ns: int
    share: float
    count: int | float
    limited_by: str


class ModuleRow(Struct, frozen=True):
    """One nn.Module: its calls, and the kernels launched inside them with their time.

    `total_ns` is the GPU time of all that belongs to it and to the modules that it calls: its
    forward pass, its backward pass, and what activation checkpointing computed again. `share` is of
    all GPU time. `flops` are those of its matmuls and attention, `mfu` their share of the peak
    over `total_ns`; null where none is known. `memory_bytes` is what its calls allocated on the GPU
    less what they freed, where the profiler recorded memory. `folded` counts the modules beside it
    that are its equals, itself included. `path` has the modules around it, outermost first. Work
    that no module owns has rows of its own with the kind "". The rows without a path add up to all
    GPU time. A trace without GPU work has host time in `total_ns`, `share` and the three passes:
    that of the module and its ops, which includes profiler overhead.
    """

    name: str
    calls: int
    kernels: int
    gpu_ns: int
    kind: str = ""
    path: list[str] = []
    total_ns: int = 0
    share: float = 0.0
    forward_ns: int = 0
    backward_ns: int = 0
    recomputed_ns: int = 0
    flops: int | None = None
    mfu: float | None = None
    folded: int = 1
    memory_bytes: int | None = None


class StepRow(Struct, frozen=True):
    """One profiler step.

    `recorded_ns` is the time of the step in the recording, on all GPUs that it uses: what its
    `gpu_busy_ns` leaves of it is idle. `gpu_idle_ns` is idle time between its own GPU operations.
    `ops` and `ops_ns` are the host ops of a step that a CPU computed, and the time inside them.
    """

    name: str
    index: int | None
    cpu_ns: int
    kernels: int
    memcpys: int
    memsets: int
    gpu_busy_ns: int | None
    gpu_idle_ns: int | None
    bound: str
    recorded_ns: int | None = None
    ops: int | None = None
    ops_ns: int | None = None


class RegionRow(Struct, frozen=True):
    """All calls of one `record_function` region; `gpu_ns_per_call` is the median call's."""

    name: str
    count: int
    cpu_ns: int
    kernels_per_call: int | float
    roles_per_call: dict[str, int | float]
    gpu_busy_ns: int | None
    bound: str
    gpu_ns_per_call: float | None = None


class RoofsEntry(Struct, frozen=True):
    """The roofs that kernels are held against: 10^9 bytes per second, TFLOP/s by data type.

    They are measured, or those of the datasheet; `l2_gbps` is null where L2 was not measured.
    `datasheet` are the data types whose peak was not measured.
    """

    device: str
    hbm_gbps: float
    l2_gbps: float | None
    l2_bytes: int | None
    tflops: Mapping[str, float]
    measured: bool
    source: str
    datasheet: tuple[str, ...] = ()


class OpRow(Struct, frozen=True):
    """All calls of one host op; `kernels` and `gpu_ns` are of what was launched anywhere below it.

    `gpu_ns` is the sum of durations, as the profiler's table has it in `CUDA total`.
    """

    name: str
    count: int
    self_cpu_ns: int
    total_cpu_ns: int
    kernels: int | None
    metadata_only: bool | None
    gpu_ns: int | None = None


class TraceMemory(Struct, frozen=True):
    """The most GPU memory that was in use, and what it was.

    It comes from the allocator's snapshot beside the trace (`source` is its file name, and `parts`
    are bytes by category), or from the memory events of the trace (`source` is empty).
    `before_bytes` were allocated before the recording; null where that is unknown.
    """

    device: str
    peak_bytes: int
    reserved_bytes: int | None
    source: str = ""
    parts: Mapping[str, int] = {}
    before_bytes: int | None = None


class CpuOpRow(Struct, frozen=True):
    """Calls of one op at one place of the op tree of a step or call that a CPU computed.

    The first row is the step or call itself, at depth 0: its own time is that outside of all ops.
    `does` is `computes`, `metadata only`, or empty for what calls others. `note` says what a name
    does not: which ops a generated kernel fuses, whose copy it is.
    """

    name: str
    depth: int
    count: int
    total_ns: int
    self_ns: int
    does: str
    note: str = ""


class IgnoredEntry(Struct, frozen=True):
    """A rule whose findings, or a fix whose advice, the user wants not to see (`how`: ignored, or
    not selected), how many `findings` it has here, and the user's `reason`.
    """

    kind: str
    name: str
    findings: int
    how: str
    reason: str = ""


class CollectiveRow(Struct, frozen=True):
    """Collectives of one kind, type, message size and group; bandwidths as nccl-tests define them,
    in 10^9 bytes per second, medians and those of the fastest.
    """

    collective: str
    dtype: str
    message_bytes: int
    group_name: str | None
    group_size: int | None
    count: int
    total_ns: int
    median_ns: float | None
    algorithm_gbps: float | None
    bus_gbps: float | None
    best_bus_gbps: float | None


class ServingRow(Struct, frozen=True):
    """Batches of one kind that a serving engine annotated: `prefill`, `decode` or `mixed`.

    Medians over `batches`. `context` is the sum over the requests of a batch. `floor_ns` is the
    time in which a batch can read its weights and cache (`floor_by` memory; weights where the
    cache is not known) or do its FLOP (compute) at the GPU's peaks; null where most of the cost is
    not known. `time_ns` leaves out `unrecorded_ns`, in which the host waits for GPU work that the
    trace does not have.
    """

    kind: str
    batches: int
    requests: int
    tokens: float
    context: float | None
    time_ns: int
    gpu_busy_ns: int
    tokens_per_s: float | None
    bound: str
    floor_ns: int | None
    floor_by: str
    mfu: float | None
    mbu: float | None
    profiled: bool
    unrecorded_ns: int = 0


class UnrecordedWait(Struct, frozen=True):
    """A long wait of the host in which the trace has (almost) no GPU event: `ns` without one."""

    call: str
    op: str
    ns: int
    event: int


class TrustEntry(Struct, frozen=True):
    """What the recording lost, or what in it is distorted, and by what `cause`.

    `effect` is what that does to the figures, `do` what to do, `reference` who met it before.
    """

    cause: str
    count: int
    text: str
    effect: str = ""
    do: str = ""
    reference: str = ""


class Look(Displayed, Struct, dict=True):
    """What one trace holds. The JSON omits `overview`, of which a notebook shows the sentences.

    `mfu` and `mbu` are fractions of the GPU's peaks over wall time, `mfu_gpu` and `mbu_gpu` over
    GPU time. `host_times_profiled`: the profiler slowed the host, and no run record has wall times
    without it. `options` are the profiler's options that were on. `cpu` is the op tree of the step
    or call of median length where the CPU computed. `step` is None where a step cannot be replayed;
    `fixes` are then empty. `memory` is None where nothing recorded it. `trust` is empty for a sound
    recording; the most harmful cause comes first. `ignored` is what the rules and fixes say
    beside that, which `--select`, `--ignore` or `[tool.foretrace]` left out. `composition` is None
    where neither a GPU nor a CPU has a time.
    """

    schema: int
    trace: TraceEntry
    ledger: LedgerEntry
    totals: Totals
    steps: list[StepRow]
    regions: list[RegionRow]
    kernels: list[KernelRow]
    ops: list[OpRow]
    findings: list[Finding]
    verdict: LookVerdict = LookVerdict("unknown", "")
    groups: list[GroupRow] = []
    modules: list[ModuleRow] = []
    serving: list[ServingRow] = []
    collectives: list[CollectiveRow] = []
    mfu: float | None = None
    mbu: float | None = None
    mfu_gpu: float | None = None
    mbu_gpu: float | None = None
    host_times_profiled: bool = True
    options: list[str] = []
    cpu: list[CpuOpRow] = []
    roofs: RoofsEntry | None = None
    step: StepTime | None = None
    fixes: list[FixEntry] = []
    unrecorded: UnrecordedWait | None = None
    memory: TraceMemory | None = None
    trust: list[TrustEntry] = []
    ignored: list[IgnoredEntry] = []
    composition: Composition | None = None

    @property
    def overview(self) -> Overview | None:
        """What the first screen is made of; None when the document was read from JSON."""
        return self.__dict__.get("_overview")

    @overview.setter
    def overview(self, overview: Overview) -> None:
        self.__dict__["_overview"] = overview


WHOLE, EACH_STEP = "the whole recording", "each step"  # sequences that are not of a region


class LaunchRow(Struct, frozen=True):
    """A GPU operation of a sequence, or several with the same name, shapes and op path.

    `chain` holds the ops above it, outermost first, and the call that launched it. `host_ns` is the
    host's own time in that launch and those ops.
    """

    kernel: str
    name: str
    role: str
    bound: str
    chain: list[str]
    times: int
    ns: float | None
    host_ns: float | None
    delay_ns: float | None
    tflops: float | None
    gbps: float | None
    certainty: str = ""  # of both rates


class LaunchSequence(Struct, frozen=True):
    """What `region` launches per call; `same` of its `calls` have this sequence of `operations`."""

    region: str
    calls: int
    same: int
    operations: int
    folded: bool
    rows: list[LaunchRow]
    left_out: int


class Overview(Struct):
    """The document of `--json`, what is for people, and what a set needs to know of each trace.

    `lines` and `notes` stand above and below the table of groups, whose times are `per` step, call
    or recording. A finding that saves less than `worth_ns` is small.
    """

    look: Look
    lines: list[Line]
    notes: str
    per: str
    worth_ns: float
    sequences: list[LaunchSequence]
    world_size: int | None
    base_ns: int | None
    job: str = ""

    @property
    def sentences(self) -> list[str]:
        """The first screen without its table."""
        said = [f"{line.label}: {line.text}" for line in self.lines]
        return [*said, self.notes] if self.notes else said


class LookSet(Struct):
    """The document; `notes` are about the set as a whole. All lists are in order of path.

    `job` has the paths of the traces that are ranks of one job. It is empty for separate traces.
    """

    schema: int
    traces: list[Look]
    notes: list[NoteEntry]
    left_out: list[LeftOut]
    job: list[str] = []


class PredictedFixes(Struct, frozen=True):
    """`step` is None where a step cannot be replayed, and `reason` says why; without a fix it says
    what most fixes lack.

    `chosen` are the fixes that the user named, and `together_ns` is the step with all of them.
    `manual` explains each fix in the list. `ignored` is as in `look`.
    """

    path: str
    per: str
    step: StepTime | None
    fixes: list[FixEntry]
    chosen: list[str]
    together_ns: float | None
    reason: str = ""
    manual: dict[str, str] = {}
    schema: int = SCHEMA
    ignored: list[IgnoredEntry] = []


DOCUMENTS = {"look": Look, "sets": LookSet, "fixes": PredictedFixes}
