"""`foretrace why PATH --json`: what torch.compile made of a program, and why, with its times."""

from __future__ import annotations

from msgspec import Struct

from foretrace.read.compiler.records import (
    Access,
    CompilePhase,
    Elsewhere,
    GuardFailure,
    GuardTally,
    NamedTensor,
    Rerecording,
    SchedulerNode,
    Size,
    SourceLine,
    TunedMatmul,
)
from foretrace.read.ledger import LedgerEntry
from foretrace.work.kernel_row import KernelRow

SCHEMA = 4


class OpMapping(Struct, frozen=True):
    """One op of the Dynamo graph, and what became of it.

    `post_grad` are the nodes that it was decomposed into, `kernels` the calls that compute them.
    """

    op: str
    target: str
    source: SourceLine | None
    post_grad: list[str]
    kernels: list[str]


class RegionStages(Struct, frozen=True):
    """One compiled graph, stage by stage: how many nodes each stage has, and the time they take.

    A training graph has two: `forward` and `backward`. None is what the log does not say.
    `time_ns` is the GPU time of all its launches in the trace.
    """

    region: str  # the compile id, `0/0`
    graph: str
    function: SourceLine | None
    lines: int | None  # of user code
    dynamo_ops: int | None
    joint_nodes: int | None
    aot_nodes: int | None
    post_grad_nodes: int | None
    before_fusion: int | None
    after_fusion: int | None
    generated_calls: int | None
    library_calls: int | None
    launches: int | None
    time_ns: int | None
    compile_ns: int | None
    rank: int | None = None
    scheduler_before: list[SchedulerNode] = []
    scheduler_after: list[SchedulerNode] = []
    ops: list[OpMapping] = []


class RunEntry(Struct, frozen=True):
    """One run of a call in the trace; `events` are its kernels."""

    events: list[int]
    time_ns: int
    bytes: int | None


class CallEntry(Struct, frozen=True):
    """One call of a kernel in the wrapper, and its runs in the trace."""

    handle: str
    nodes: list[str]
    sources: list[SourceLine]
    launches: int | None
    time_ns: int | None
    runs: list[RunEntry] = []


class UnfusedTraffic(Struct, frozen=True):
    """What the work of a kernel would move unfused, each op reading and writing its own tensors.

    `ops` are those of the user's program (Dynamo's graph), None where one of them is only partly
    inside. `nodes` are post-grad nodes, after decomposition; views move nothing.
    """

    ops: int | None
    nodes: int | None
    shared: int = 0  # nodes left out, which other kernels compute as well


class CompiledKernel(Struct, frozen=True):
    """Calls of one kernel with the same tensors; a library's op (`extern_kernels.mm`) is one too.

    `bytes` is per run and None where an access is not known or runs differ. `launches` counts
    kernels, of which one run may have several; `time_ns` is the GPU time of all, `median_ns` of one
    run. `gpu_names` are the kernels that ran, and `kernel` is the row of the one that took most of
    it; null without a trace.
    """

    name: str
    region: str
    graph: str
    extern: bool
    sources: list[SourceLine]
    nodes: list[str]
    code: str
    language: str
    loads: list[Access]
    stores: list[Access]
    bytes: int | None
    launches: int | None
    time_ns: int | None
    median_ns: float | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    certainty: str = "unknown"
    ops: list[str] = []  # of the Dynamo graph
    config: dict[str, int] = {}
    gpu_names: list[str] = []
    kernel: KernelRow | None = None
    unfused: UnfusedTraffic | None = None
    calls: list[CallEntry] = []
    rank: int | None = None
    run_bytes: list[int] = []  # what runs moved, where sizes are dynamic


class NotFused(Struct, frozen=True):
    """Two neighbours that share data and stay apart: why, Inductor's own words, and the cost.

    `a` runs first; `produced` says that it writes what `b` reads, else both read it. `bytes` is the
    traffic of one run that fusing them would save at most. `at_most_ns` is the time of that in the
    whole trace, never more than the kernels themselves take. The index expressions say how each
    goes through the first shared buffer. A library's kernel has a target. Behind a graph break `b`
    is of another region, and `stopped_at` is the break. `elsewhere` is what a second run made of
    the two, where one was given.
    """

    a: str
    b: str
    reason: str
    inductor: str
    at_most_ns: int | None
    code: str = ""
    bytes: int | None = None
    region: str = ""
    graph: str = ""
    sources: tuple[SourceLine, ...] = ()
    refusals: int = 0
    shared: tuple[NamedTensor, ...] = ()
    produced: bool = True
    a_target: str = ""
    b_target: str = ""
    a_index: str = ""
    b_index: str = ""
    a_sizes: tuple[Size, ...] = ()
    b_sizes: tuple[Size, ...] = ()
    b_region: str = ""
    stopped_at: SourceLine | None = None
    rank: int | None = None
    elsewhere: Elsewhere | None = None
    a_kind: str = ""  # pointwise, reduction, scan, template, extern, …
    b_kind: str = ""


class ReasonRow(Struct, frozen=True):
    """Everything that was not fused for one reason.

    `refusals` are lines of the fusion log, about `asked` pairs of scheduler nodes, of which
    `fused_later` ended in one kernel all the same. `pairs` are the neighbours that stay apart.
    """

    reason: str
    code: str
    refusals: int
    asked: int
    fused_later: int
    pairs: int
    bytes: int | None
    at_most_ns: int | None


class BreakEntry(Struct, frozen=True):
    """A graph break, and the compiled region that it ended."""

    region: str
    source: SourceLine
    reason: str
    explanation: str = ""
    hint: str = ""
    url: str = ""
    skipped: bool = False  # Dynamo could not resume: the whole function runs eagerly
    rank: int | None = None
    resumed: list[str] = []  # regions that hold the rest of the function


class RecompileEntry(Struct, frozen=True):
    """A function that was compiled again, with the guards that did not hold."""

    region: str
    function: SourceLine | None
    failures: list[GuardFailure]
    compile_ns: int | None
    rank: int | None = None


class CompileCost(Struct, frozen=True):
    """What compiling one region cost, by phase, and what its caches said."""

    region: str
    compile_ns: int | None
    phases: list[CompilePhase]
    cache: dict[str, str]
    cudagraph_skips: list[str]
    failure: str = ""
    rank: int | None = None
    stages: dict[str, int] = {}  # ns by stage, nested time counted once
    tuned: list[TunedMatmul] = []


class StrideEntry(Struct, frozen=True):
    """A view in another order of dimensions: the same bytes, nothing copied.

    `used_by` are calls that read the memory of the source under the strides of the view. `layout`
    has the letters of such a matmul, the weight first: `tn`.
    """

    region: str
    op: str
    source: NamedTensor
    result: NamedTensor
    used_by: tuple[str, ...]
    layout: str
    line: SourceLine | None
    rank: int | None = None


class GatedMlp(Struct, frozen=True):
    """A gated MLP of a forward pass that several kernels compute: see `foretrace.kernels.swap`.

    `size` is rows, model width and hidden width; None where one is dynamic. `time_ns` is the GPU
    time of all runs of its kernels.
    """

    region: str
    activation: str
    size: tuple[int, int, int] | None
    kernels: list[str]
    time_ns: int | None
    source: SourceLine | None
    rank: int | None = None


class Why(Struct):
    """What torch.compile did, and why.

    `steps` is how many steps the trace has: times are of all of them. `compiled_ns` is the GPU time
    of the launches that belong to compiled graphs, `gpu_ns` that of the whole trace.
    `unexplained` are kernels of compiled graphs in the trace that no record of the log explains.
    """

    schema: int
    path: str
    trace: str | None
    sources: list[str]
    lacks: list[str]
    ledger: LedgerEntry
    stages: list[RegionStages]
    kernels: list[CompiledKernel]
    not_fused: list[NotFused]
    graph_breaks: list[BreakEntry]
    recompiles: list[RecompileEntry]
    compile_cost: list[CompileCost]
    strides: list[StrideEntry] = []
    device: str | None = None
    steps: int = 0
    launches: int | None = None
    compiled_ns: int | None = None
    gpu_ns: int | None = None
    unexplained: list[str] = []
    compile_ns: int | None = None
    reasons: list[ReasonRow] = []
    guards: list[GuardTally] = []
    rerecordings: list[Rerecording] = []
    gated_mlps: list[GatedMlp] = []


DOCUMENTS = {"why": Why}
