"""Whether compiling can help, from one eager trace.

What it shows: which of three is the cost of a step: dispatch (the GPU waits for the host), many
kernels that fuse (pointwise, reductions, copies), or matmuls and attention. And so whether
`torch.compile` can help, where, and by how much at most.

Why it matters: compiling removes dispatch (one call for many ops, none with a CUDA graph) and fuses
kernels. Matmuls and attention stay in the same libraries' kernels. A step that consists of
them gains nothing. On an H200 (torch 2.11): 18 small kernels took 375 us eager, 254 us compiled and
86 us with `mode="reduce-overhead"`; RMSNorm and activations around one matmul 1,028 to 318 us; one
matmul of 8192 with ReLU 1,678 to 1,681 us.

How it is computed: in traces without compiled code, graphs and captures; medians over the steps.
Dispatch is the idle time of the GPU while the host ran ops or the Python between them, in gaps up
to 1 ms, of the step with the median idle time; where a run record beside the trace has the time
without the profiler, at most the idle time that this leaves. Kernels that fuse are ATen's, copies
on the device and normalizations; optimizers, collectives, the buckets of DDP and other kernels of
libraries do not count. A
vectorized kernel without another of them before or after it has nothing to fuse with; it counts as
an addition to a matmul, or with its time beyond the card's bandwidth. The saving is at most
dispatch and these kernels together; with a softmax, the batched matmuls too, since Inductor
replaces written-out attention, less what fused attention takes at the least (see attention_math). A
step that a compiled call on the host outlasts gains nothing.

When it is wrong: a graph break or a recompilation keeps dispatch. A compiled program may choose
other kernels for matmuls (`mode="max-autotune"`). Without a run record the host's times include
profiler overhead, so dispatch is less without it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from foretrace.analyze.rules._common import bandwidth_ns, each, following, ids, listing, per
from foretrace.analyze.rules._idle import limited, typical_idle
from foretrace.analyze.rules.attention_math import least_ns
from foretrace.base.arrays import coded
from foretrace.base.units import percent_text, plural, time_text
from foretrace.model import bounds, wall
from foretrace.model.intervals import Bools, Ints
from foretrace.model.metadata import device_of
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

MATMULS = ("gemm", "gemv", "conv", "attention")
BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
# Groups: compiling a model leaves its optimizer and the buckets of DDP as they are.
KEPT = ("optimizer", "DDP buckets")
REACH = (1, 2)  # a matmul may lie between two kernels that fuse: gelu, then a matmul, then mul
ADDITIONS = frozenset({"aten::add", "aten::add_"})
# Below this share of the step the gain is within what two recordings differ by: on an H200 a
# matmul of 8192 with ReLU could save 2% and took 1,678 us eager, 1,681 us compiled.
HARDLY = 0.1
# Guards and the generated wrapper of one matmul cost this much without the profiler; 73 us with a
# reshape, 86 to 109 us in a CUDA graph (an H200's host, torch 2.11).
COMPILED_CALL_NS = 65_900
# The profiler slows the host by 2.8 to 7.5 times in calls below 100 us (13 recordings, H200).
SLOWER = 3
# Of the gaps between ops of a model 99% are shorter (eager H200 and H100 traces). Longer ones are
# other work: 55 ms for a new plan of cuDNN, allocations, data loading.
LONGEST_NS = 1_000_000
# With more kernel time than this in kernels of no known family, what fuses is unknown.
UNKNOWN = 0.4
NAMED = 3


class Parts(Struct, frozen=True):
    """What a step consists of, in ns; `small` and `matmuls` are rows of `gpu`."""

    step_ns: float
    dispatch_ns: float
    busy_ns: float
    small: Ints
    small_ns: float
    matmuls: Ints
    matmul_ns: float
    replaced_ns: float
    lone_ns: float
    least_ns: float

    @property
    def saved_ns(self) -> float:
        """The most that compiling can save."""
        kernels = self.small_ns + self.replaced_ns + self.lone_ns
        return min(self.dispatch_ns + min(kernels, self.busy_ns - self.least_ns), self.step_ns)


def _check(trace: Trace) -> Iterator[Finding]:
    parts = _parts(trace) if _eager(trace) else None
    if parts is None or not parts.busy_ns or not parts.step_ns:
        return
    recorded = wall.idle_limit_ns(trace) is not None
    slower = 1 if recorded else SLOWER
    title, fix = _verdict(parts, slower)
    saved: int | None = round(parts.saved_ns)
    bound = f" Compiling saves at most {time_text(saved)}."
    if parts.step_ns < COMPILED_CALL_NS * slower and parts.busy_ns < COMPILED_CALL_NS:
        call = f"a compiled call costs {COMPILED_CALL_NS / 1000:.0f} us"
        profiled = ("", "") if recorded else (" with the profiler", " without it")
        step = f"a step takes {time_text(parts.step_ns)}{profiled[0]}"
        title = f"Compiling can hardly help: {step}; {call}{profiled[1]}"
        bound, saved, fix = f" On an H200's host {call}.", None, ""
    note = "" if recorded or not parts.dispatch_ns else " (includes profiler overhead)"
    rest = parts.saved_ns - parts.dispatch_ns - parts.small_ns
    other = f"; {time_text(rest)} in other kernels that it may shorten" if rest >= 1 else ""
    small, matmuls = (each(trace, len(rows)) for rows in (parts.small, parts.matmuls))
    detail = (
        f"{per(trace).capitalize()}: dispatch {time_text(parts.dispatch_ns)}{note}; "
        f"{plural(small, 'fusable kernel')} {time_text(parts.small_ns)}"
        f"{_where(trace, parts.small)}{other}; {plural(matmuls, 'kernel')} of matmuls and "
        f"attention {time_text(parts.matmul_ns)}.{bound}"
    )
    evidence = {
        "dispatch_ns": round(parts.dispatch_ns),
        "small_kernels": small,
        "small_ns": round(parts.small_ns),
        "matmuls": matmuls,
        "matmul_ns": round(parts.matmul_ns),
        "busy_ns": round(parts.busy_ns),
    }
    events = ids(trace.order.events_of(trace.order.counts))
    yield Finding(RULE.name, "found", title, detail, evidence, events, saved or None, fix)


def _verdict(parts: Parts, slower: int) -> tuple[str, str]:
    """The answer, and the fix; none for steps that are mostly idle: `launch_bound` names it.

    Dispatch counts as most of it if that holds too for a host that the profiler made `slower`.
    """
    most = f"at most {percent_text(parts.saved_ns / parts.step_ns)} of the step"
    if parts.dispatch_ns + parts.small_ns < HARDLY * parts.step_ns:
        rest = percent_text(parts.matmul_ns / parts.busy_ns)
        kept = f"matmuls and attention are {rest} of the GPU time"
        return f"Compiling can hardly help: {most}; {kept}", ""
    if parts.dispatch_ns <= slower * parts.small_ns:
        return f"Compiling can help: {most}, mostly by fusing kernels", "fuse with torch.compile"
    told = parts.dispatch_ns > bounds.MOSTLY_IDLE * parts.step_ns
    fix = "" if told else 'torch.compile(mode="reduce-overhead")'
    return f"Compiling can help: {most}, mostly dispatch", fix


def _eager(trace: Trace) -> bool:
    """Whether ops launched most kernels, none from compiled code or a graph, and most are known."""
    order, names = trace.order, trace.host.names
    compiled = any(case.id.family.startswith("inductor") for case in order.cases)
    called = any(name.startswith("Torch-Compiled Region") for name in names)
    graphs = bool(trace.gpu.in_graph.any()) or len(trace.host.captures.start) > 0
    launched = (
        order.steps
        and order.counts.any()
        and (order.op[order.counts] >= 0).mean() > bounds.MOSTLY_IDLE
    )
    ns = sum(case.ns for case in order.cases)
    unknown = sum(case.ns for case in order.cases if case.role == "other") > UNKNOWN * ns
    return bool(launched) and not (compiled or called or graphs or unknown)


def _parts(trace: Trace) -> Parts:
    order, cases = trace.order, trace.order.cases
    model = ~np.isin(trace.work_groups, KEPT)
    small = (_rows(trace, _fusable(trace)) | _copied(trace)) & model
    matmuls = _rows(trace, np.array([case.role in MATMULS for case in cases])[order.case])
    softmax = any(case.role == "softmax" for case in cases if case.count)
    replaced = _rows(
        trace, np.array([softmax and case.op in BATCHED for case in cases])[order.case]
    )
    steps = [span.work for span in trace.spans.steps if len(span.work)]
    every = np.ones(len(trace.gpu), bool)

    def median(chosen: Bools) -> float:
        return float(np.median([trace.gpu.busy(work[chosen[work]]) for work in steps]))

    counted = trace.spans.step_of_work() >= 0
    spent = [time.wall_ns for span in trace.spans.steps if (time := bounds.spent(trace, span))]
    return Parts(
        float(np.median(spent)) if spent else 0.0,
        _dispatch(trace),
        median(every),
        np.flatnonzero(small & counted),
        median(small),
        np.flatnonzero(matmuls & counted),
        median(matmuls),
        median(replaced),
        _lone(trace, small),
        order.per_step(least_ns(trace, np.flatnonzero(replaced))),
    )


def _dispatch(trace: Trace) -> float:
    """Idle time of a step while the host ran ops, or Python between them."""
    idle = typical_idle(trace)
    waits = idle.of("launch", "host") & (idle.length <= LONGEST_NS)
    return float(limited(trace, idle.length[waits].sum()))


def _rows(trace: Trace, launches: Bools) -> Bools:
    """The rows of `gpu` of these launches."""
    rows = np.zeros(len(trace.gpu), bool)
    rows[trace.order.row[launches]] = True
    return rows


def _fusable(trace: Trace) -> Bools:
    """Launches of small kernels that have a neighbour to fuse with, or are not vectorized."""
    order, cases = trace.order, trace.order.cases
    small = np.array([_small(case) for case in cases])
    plain = np.array(["vectorized_elementwise_kernel" in case.name for case in cases])
    found: Bools = (small & ~plain)[order.case]
    for far in REACH:
        places = following(order, far, lambda left, right: bool(small[left] & small[right]))
        found[places], found[places - far] = True, True
    return found


def _lone(trace: Trace, fusable: Bools) -> float:
    """What other small kernels could save: an addition to a matmul its time, since the matmul
    can add; another its time beyond what its bytes take at full bandwidth.
    """
    order, cases = trace.order, trace.order.cases
    device = device_of(trace.about)
    small = np.array([_small(case) for case in cases])[order.case]
    least = np.array([bandwidth_ns(device, case.bytes) for case in cases])[order.case]
    least[following(order, 1, lambda left, right: _added(cases[left], cases[right]))] = 0.0
    alone = order.counts & ~fusable[order.row] & small
    return order.per_step(float(np.maximum(order.length - least, 0)[alone].sum()))


def _added(left: Case, right: Case) -> bool:
    return left.role in MATMULS and right.op in ADDITIONS


def _small(case: Case) -> bool:
    aten = case.id.family.startswith("aten_") and case.id.family != "aten_multi_tensor"
    # Inductor writes its own normalization, also for what eager mode gives to cuDNN
    norm = case.role == "normalization" and (case.op or "").startswith("aten::")
    return norm or (aten and case.role not in (*MATMULS, "sort", "optimizer"))


def _copied(trace: Trace) -> Bools:
    """Copies from the device to itself."""
    gpu = trace.gpu
    return gpu.is_memcpy & trace.host.named(lambda name: "DtoD" in name)[gpu.id]


def _where(trace: Trace, rows: Ints) -> str:
    """` (most in RMSNorm, RoPE and SwiGLU)`: the groups with most of the time."""
    names, place = coded(trace.work_groups[rows])
    time = np.bincount(place.reshape(-1), weights=trace.gpu.length[rows], minlength=len(names))
    most = [str(names[at]) for at in np.argsort(-time, kind="stable")[:NAMED]]
    return f" (most in {listing(most)})" if most else ""


RULE = Rule(
    "compile_triage",
    "Whether compiling can help",
    _check,
    ("gpu", "ops", "launches", "clock", "steps"),
)
