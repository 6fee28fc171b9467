"""Where the time of a step goes; or of a call of the main region, or of the whole recording.

Times and counts are medians over the steps or calls that launched GPU work.

A step or call that a CPU computed: its op tree, what computes, and what only changes metadata.

A CPU has no kernels and no launches: an op that computes does so itself, in the thread that called
it and those that help. Equal parts of the tree below one op are one row with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct, field

from foretrace.base.arrays import distinct, median
from foretrace.base.tables import Line
from foretrace.base.units import count_text, percent_text, plural, time_text
from foretrace.look.documents import WHOLE, CpuOpRow, Finding, GroupRow
from foretrace.read.compiler import records as compiled
from foretrace.trace import bounds
from foretrace.trace.bounds import measured_spans
from foretrace.trace.cpu_ops import computing_ops, cpu_call, cpu_does, runs_on_cpu
from foretrace.trace.idle import spent_in
from foretrace.trace.intervals import Bools
from foretrace.trace.modules import PYTHON
from foretrace.trace.recording import is_view
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace
from foretrace.work.families import decode


class MeasuredStep(Struct, frozen=True):
    """One step, call or recording: where its time goes.

    `per` is the word for it ("per step"). `idle_by_cause` is that of one of middle length.
    `apart_ns` is the usual distance of two launches, without the profiler where the run record has
    the wall time; `kernel_ns` is the usual length of a kernel. `by_bound` divides the GPU time of
    all `spans`, which are empty for a whole recording; `at_roof` has that of kernels at their roof.
    `recorded_ns` is the time with the profiler, where `wall_ns` is predicted without it.
    """

    per: str
    calls: int
    bound: str
    wall_ns: float
    busy_ns: float
    queued_ns: float
    idle_by_cause: dict[str, int]
    profiled: bool
    launches: float
    graph_launches: float
    apart_ns: float | None
    kernel_ns: float | None
    by_bound: dict[str, int]
    at_roof: dict[str, int]
    devices: int
    spans: list[Span]
    recorded_ns: float | None = None

    @property
    def busy_share(self) -> float:
        """Share of the wall time in which the GPUs are busy."""
        return min(self.busy_ns / self.wall_ns, 1.0) if self.wall_ns > 0 else 1.0


def measured(trace: Trace, region: str = "") -> MeasuredStep | None:
    """The step of a trace, or a call of one region; None where no GPU event has a time."""
    per, spans = measured_spans(trace, region)
    if spans:
        times = [time for span in spans if (time := bounds.spent(trace, span)) is not None]
        bound, works = bounds.of_spans(trace, spans), [span.work for span in spans]
    elif trace.gpu.usable.any() and not region:
        times, works = [spent_in(trace.idle)], [trace.gpu.launch_order]
        bound = bounds.of_time(trace, times[0], works[0])
    else:
        return None
    gpu, host = trace.gpu, trace.host
    rows, busy = np.concatenate(works), trace.spans.median_busy(spans) or gpu.busy(works[0])
    kernels = [work[gpu.is_kernel[work]] for work in works]
    launches = [distinct(gpu.launch[work[gpu.launch[work] >= 0]]) for work in kernels]
    apart = [np.diff(np.sort(host.start[each])) for each in launches]
    lengths = gpu.length[rows[gpu.is_kernel[rows] & gpu.usable[rows]]]
    middle = sorted(times, key=lambda time: time.wall_ns)[len(times) // 2]
    distances = np.concatenate(apart)
    launched = median(len(each) for each in launches)
    # work of two streams may begin in the window of the step before
    wall_ns = max(median(time.wall_ns for time in times), busy)
    # the median of two is their mean, which may be the distance of none
    usual = float(np.median(distances)) if len(distances) > 2 else None
    if usual is not None and not middle.profiled:
        usual = wall_ns / launched if launched else None
    return MeasuredStep(
        per,
        len(works),
        bound,
        wall_ns=wall_ns,
        busy_ns=busy,
        queued_ns=median(time.queued_ns for time in times),
        idle_by_cause=middle.idle_by_cause,
        profiled=middle.profiled,
        launches=launched,
        graph_launches=median(int(host.is_graph_launch[each].sum()) for each in launches),
        apart_ns=usual,
        kernel_ns=float(np.median(lengths)) if len(lengths) else None,
        by_bound=bounds.time_by_bound(trace, rows),
        at_roof=bounds.time_at_roof(trace, rows),
        devices=len(distinct(gpu.device_number[rows])),
        spans=spans,
    )


# A fix that saves less of the step than this is not worth a line of the first screen.
WORTH = 0.01
TRIAGE = "compile_triage"  # has its own line; another rule with the same fix is more exact
FIRST_USE = "first_use"  # such a recording says nothing of the program's usual step
HARDLY = "can hardly help"


def captured(step: MeasuredStep) -> bool:
    """Whether capturing CUDA graphs took most of the time."""
    return step.idle_by_cause.get("capture", 0) > step.wall_ns / 2


def title_of(findings: Sequence[Finding], rule: str) -> str:
    """The title of what a rule found, or an empty text."""
    return next((row.title for row in findings if row.rule == rule and row.state == "found"), "")


def saving_text(row: Finding | Finding) -> str:
    """`about 1.20 ms` where a replay predicts it, `at most 3.00 ms` where only a bound is known."""
    if row.saves_ns is not None:
        return f"about {time_text(row.saves_ns)}"
    return "" if row.at_most_ns is None else f"at most {time_text(row.at_most_ns)}"


def whole_ns(step: MeasuredStep) -> float:
    """What the savings of findings are of: a step, or without steps the recording."""
    return step.wall_ns if step.per == "per step" else step.wall_ns * step.calls


COMPUTES, METADATA, LOADS = "computes", "metadata only", "loads data"
_LOADER = "enumerate(DataLoader)"
MOST_OPS = 500_000  # of a call; the tree of a longer one is left out
_BIAS = "bias of aten::addmm"


class OpNode(Struct):
    """Equal parts of the op tree: their calls, and what they call in turn."""

    name: str
    events: list[int]
    computes: bool
    below: list[OpNode] = field(default_factory=list)

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for parts that run the same ops."""
        return (self.name, self.computes, *(each.shape for each in self.below))


def cpu_tree(trace: Trace, region: str = "") -> list[CpuOpRow]:
    """The op tree of the call of median length; empty where no CPU computed, or it is too long."""
    if not runs_on_cpu(trace):
        return []
    host, call = trace.host, cpu_call(trace, region)
    loading = host.named(lambda name: name.startswith(_LOADER))
    events = np.flatnonzero((host.is_op | loading) & host.lasting & host.timed)
    if call is not None:
        start = host.start[events]
        events = events[(start >= call.start_ns) & (start < call.end_ns)]
    events = events[np.argsort(host.start[events], kind="stable")]
    computes, callers = computing_ops(trace)
    if not computes[events].any() or len(events) > MOST_OPS:
        return []
    roots = _merged(_nested(trace, events.tolist(), computes))
    length = call.cpu_ns if call else int(host.end[events].max() - host.start[events].min())
    inside = sum(int(host.length[event]) for node in roots for event in node.events)
    title = call.name if call else WHOLE
    first = CpuOpRow(title, 0, 1, length, max(length - inside, 0), "")
    return [first, *(row for node in roots for row in _rows(trace, node, callers, 1))]


def _nested(trace: Trace, events: Sequence[int], computes: Bools) -> list[OpNode]:
    """The ops below each other; an op whose parent began before the call is outermost."""
    host = trace.host
    nodes = {
        event: OpNode(host.names[host.name[event]], [event], bool(computes[event]))
        for event in events
    }
    roots: list[OpNode] = []
    for event, node in nodes.items():
        above = int(host.parent[event])
        while above >= 0 and above not in nodes:
            above = int(host.parent[above])
        (nodes[above].below if above >= 0 else roots).append(node)
    return roots


def _merged(nodes: Sequence[OpNode]) -> list[OpNode]:
    found: dict[tuple[object, ...], OpNode] = {}
    for node in nodes:
        node.below = _merged(node.below)
        known = found.setdefault(node.shape, node)
        if known is not node:
            _add(known, node)
    return list(found.values())


def _add(known: OpNode, other: OpNode) -> None:
    known.events += other.events
    for one, more in zip(known.below, other.below, strict=True):
        _add(one, more)


def _rows(trace: Trace, node: OpNode, callers: Bools, depth: int) -> Iterator[CpuOpRow]:
    host, events = trace.host, node.events
    calls = bool(callers[events[0]])
    does, note = METADATA if is_view(node.name) and not calls else "", ""
    total, inside = int(host.length[events].sum()), [each.events for each in node.below]
    # ranges between two ops are no ops: their time is that of the op around them
    spent = total - sum(int(host.length[called].sum()) for called in inside)
    if node.computes:
        does, note = COMPUTES, _note(trace, node)
    elif node.name.startswith(_LOADER):
        does = LOADS
    yield CpuOpRow(node.name, depth, len(events), total, max(spent, 0), does, note)
    for each in node.below:
        yield from _rows(trace, each, callers, depth + 1)


def _note(trace: Trace, node: OpNode) -> str:
    if _is_generated(node.name):
        ops = [op for op in sorted(cpu_does(node.name)) if not op.endswith("view")]
        return f"one C++ loop for {', '.join(ops)}"
    chain = trace.host.op_chain(int(trace.host.parent[node.events[0]]))
    return _BIAS if node.name == "aten::copy_" and "aten::addmm" in chain else ""


def cpu_groups(tree: Sequence[CpuOpRow]) -> list[GroupRow]:
    """Where the time of the call goes: ops that compute, views, and everything around them."""
    whole = max(tree[0].total_ns, 1)
    names: dict[tuple[str, str], list[CpuOpRow]] = {}
    for row in tree:
        key = (row.name, row.note) if row.does == COMPUTES else (_around(row), "")
        names.setdefault(key, []).append(row)
    rows = [
        GroupRow(
            name,
            time_ns=sum(row.self_ns for row in found),
            share=sum(row.self_ns for row in found) / whole,
            count=sum(row.count for row in found if row.depth),
            limited_by=note,
        )
        for (name, note), found in names.items()
    ]
    return sorted(rows, key=lambda row: -row.time_ns)


def _around(row: CpuOpRow) -> str:
    if row.does == LOADS:
        return "in the DataLoader"  # it waits for workers, or loads by itself
    if not row.depth:
        return PYTHON
    return "views (metadata only)" if row.does == METADATA else "wrappers and allocations"


def cpu_lines(tree: Sequence[CpuOpRow]) -> Iterator[Line]:
    """What a reader of a CPU trace looks for: what computes, what is fused, what is copied."""
    if not tree:
        return
    ops = sum(row.count for row in tree[1:] if row.does != LOADS)
    computing = [row for row in tree if row.does == COMPUTES]
    views = [row for row in tree if row.does == METADATA]
    spent = sum(row.self_ns for row in computing)
    share = percent_text(spent / max(tree[0].total_ns, 1))
    yield Line(
        "CPU",
        f"{count_text(sum(row.count for row in computing))} of {plural(ops, 'op')} compute, "
        f"{time_text(spent)} of {time_text(tree[0].total_ns)} ({share}) in {tree[0].name}; "
        f"{count_text(sum(row.count for row in views))} only change metadata "
        f"({time_text(sum(row.self_ns for row in views))})",
    )
    yield from _unrecorded(tree)
    copies = [row for row in computing if row.note == _BIAS]
    if copies:
        time, calls = sum(row.total_ns for row in copies), sum(row.count for row in copies)
        matmuls = sum(row.total_ns for row in tree if row.name == "aten::addmm")
        yield Line(
            "BIAS",
            f"aten::addmm copies its bias into the output before the matmul adds to it: "
            f"{plural(calls, 'copy', 'copies')}, {time_text(time)} of its {time_text(matmuls)}",
        )


def _unrecorded(tree: Sequence[CpuOpRow]) -> Iterator[Line]:
    """Inductor's C++ kernels are ops only where it was told so before it compiled."""
    regions = [row for row in tree if row.name.startswith(compiled.REGION)]
    if regions and not any(_is_generated(row.name) for row in tree):
        time = time_text(sum(row.self_ns for row in regions))
        yield Line(
            "COMPILED",
            f"the C++ kernels of compiled code are not in the trace: at most {time} of this call. "
            "Set torch._inductor.config.cpp.enable_kernel_profile = True before it compiles",
        )


def _is_generated(name: str) -> bool:
    return decode(name).family == "inductor_cpp"
