"""What torch.compile would fuse, has fused, and has left apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.base.units import bytes_text, listing, percent_text, plural, time_text, times_text
from foretrace.look.documents import Finding
from foretrace.look.rules import (
    LISTED,
    Found,
    Seen,
    bare,
    has_gaps,
    rule,
    shortened,
    traffic_of,
)
from foretrace.look.rules.launches import graph_rows
from foretrace.look.rules.training import optimizer_rows
from foretrace.read.compiler import records as compiled
from foretrace.read.compiler.records import CompiledLaunch, CompilerRun, GraphBreak, GuardFailure
from foretrace.trace import bounds
from foretrace.trace.arguments import made, operands
from foretrace.trace.intervals import Bools, IntervalUnion, Ints, split_by
from foretrace.trace.recording import VIEWS
from foretrace.trace.trace import Trace
from foretrace.work import families
from foretrace.work.costs.limits import cache_rate, memory_rate, traffic_ns
from foretrace.work.kernel_row import KernelRow

if TYPE_CHECKING:
    from foretrace.why.documents import NotFused

# What TorchInductor generates as one kernel: pointwise code, and reductions or scans along with it.
_FUSABLE = "pointwise copy reduction scan normalization softmax scatter_gather random"
FUSABLE = frozenset(_FUSABLE.split())
POINTWISE = frozenset({"pointwise", "copy"})
MATMULS = frozenset({"gemm", "gemv", "conv"})
OPAQUE = MATMULS | {"attention"}
# Kernels from a writer to its reader: RoPE adds q * cos to a matmul that is 4 kernels on, and the
# RMSNorm of a Gemma multiplies by x 5 kernels after x was cast.
REACH = 6
# A tensor that is written and read in less: a kernel takes as long to start.
SHORTEST_TOLD_NS = 1000
NONE = np.empty(0, np.int64)


@rule("Neighbouring kernels that could be one", "gpu shapes", fixes="compile", example="mlp_eager")
def fusable_pointwise(seen: Seen) -> Found:
    """Neighbouring kernels that could be one.

    What it shows: groups of pointwise, cast, copy, reduction and normalization kernels of which
    each reads what another one has written: how many kernels would do, and how much memory traffic
    that avoids.

    Why it matters: such kernels are memory-bound or too short to matter alone. Every step from one
    to the next costs a write and a read of the whole tensor, and a launch. `torch.compile` fuses
    these first. Liger and other hand-written kernels exist for them.

    How it is computed: in launch order on one stream, between two matmuls, a kernel belongs to the
    group of an earlier one when it has an operand of exactly the size that the earlier one writes.
    A matmul may lie between two of them if it makes the other operand (gelu, then a matmul, then
    the gating mul). One kernel for the group must still read every operand that comes from outside
    once, and write every result that no kernel of the group reads. An intermediate stays in L2
    where each kernel of the group moves no more than L2 holds. Kernels of an optimizer step are in
    `unfused_optimizer`. Those that compiled code launched are left out. What fusing saves is
    predicted by the fix `compile`.

    When it is wrong: a trace records sizes, not which tensor is which. An intermediate that is also
    needed later (by the backward pass) must still be written; then only the read is saved. A
    reduction over the whole tensor ends a kernel.
    """
    every, alike = chains(seen.trace), dict[bytes, list[Ints]]()
    for mine in every:
        alike.setdefault(seen.order.case[mine].tobytes(), []).append(mine)
    groups = [_chain_entry(seen, found) for found in alike.values()]
    groups = [group for group in groups if group["bytes_saved"]]
    if not groups:
        return
    groups.sort(key=lambda group: (-group["bytes_saved"] * group["count"], group["ops"]))
    kernels = seen.each(sum(group["kernels"] * group["count"] for group in groups))
    fewest = seen.each(sum(group["count"] for group in groups))
    moved = seen.step(sum(group["bytes_saved"] * group["count"] for group in groups))
    shown = [group | {"count": seen.each(group["count"])} for group in groups[:LISTED]]
    first = shown[0]
    ops = shortened(first["ops"])
    title = f"{ops} could be {first['could_be']}"
    most = f"{first['intermediate']} is written and read again. "
    most += _in_cache(seen, first["intermediate_bytes"], first["largest_bytes"])
    if len(groups) > 1:
        title = f"{plural(kernels, 'kernel')} {seen.per} could be as few as {fewest:,}"
        most += f"Most of the time: {ops}, {times_text(first['count'])} {seen.per}. "
    detail = (
        f"{most}One kernel for each group avoids at most {bytes_text(moved)} of memory traffic "
        f"{seen.per}. The trace shows sizes and order, not that it is the same tensor."
    )
    evidence = {"kernels": kernels, "could_be": fewest, "bytes_saved": moved, "chains": shown}
    events = seen.order.events_of(np.concatenate([NONE, *every]))
    yield seen.found(title, detail, evidence, events)


def _in_cache(seen: Seen, size: int, working_set: int) -> str:
    """What L2 makes of writing and reading a tensor, where it holds all that a kernel moves."""
    device = seen.device
    if device is None or not cache_rate(device) or not 0 < working_set <= (device.cache_bytes or 0):
        return ""
    cached = traffic_ns(device, 2 * size, working_set)
    memory = 2 * size / memory_rate(device) * 1e9
    if memory < SHORTEST_TOLD_NS:
        return ""
    return f"It fits in L2: {time_text(cached)} at its roof, not the {time_text(memory)} of HBM. "


def chains(trace: Trace) -> list[Ints]:
    """Places in launch order of the kernels that one kernel could do, group by group."""
    reader, writer = _links(Seen(trace))
    label = np.arange(len(trace.order.row))  # the same within a group
    before = label - 1
    while (label != before).any():
        low, before = np.minimum(label[reader], label[writer]), label.copy()
        np.minimum.at(label, reader, low)
        np.minimum.at(label, writer, low)
        label = label[label]
    places = distinct(np.concatenate((reader, writer)))
    return split_by(label[places], places)


def _links(seen: Seen) -> tuple[Ints, Ints]:
    """(readers, their writers) among the kernels, as places in launch order."""
    order, cases = seen.order, seen.cases
    # kernels that help a matmul (a split-K sum, a bias) stay with it
    matmuls = {case.op for case in cases if case.role in OPAQUE}
    fusable = [case.role in FUSABLE and case.op not in matmuls for case in cases]
    written = [made(case) for case in cases]
    read = [[size for _, size in operands(case)] for case in cases]

    def passes(left: KernelRow, right: KernelRow) -> bool:
        """Whether the second has an operand of exactly the size that the first one writes."""
        size = written[left.number]
        return size > 0 and size in read[right.number]

    known: dict[tuple[int, int], bool] = {}

    def reads(left: KernelRow, right: KernelRow) -> bool:
        pair = left.number, right.number
        if pair not in known:
            known[pair] = fusable[pair[0]] and passes(left, right) and _may_read(left, right)
        return known[pair]

    def feeds(left: KernelRow, right: KernelRow) -> bool:
        """Whether a matmul makes one of several operands."""
        return left.role in MATMULS and len(read[right.number]) > 1 and passes(left, right)

    def eats(left: KernelRow, right: KernelRow) -> bool:
        """Whether a matmul reads what the kernel before it wrote."""
        return right.role in MATMULS and passes(left, right)

    run = np.cumsum(~np.array(fusable, bool)[order.case])
    pairs = []
    for distance in range(1, REACH + 1):
        right = seen.following(distance, reads)
        pairs.append((right[run[right] == run[right - distance]], distance))
    far = seen.following(2, reads)
    fed, eaten = seen.following(1, feeds), seen.following(1, eats)
    fed = far[np.isin(far, fed) & ~np.isin(far - 1, eaten) & (run[far] > run[far - 2])]
    reader = np.concatenate([fed, *(right for right, _ in pairs)])
    writer = np.concatenate([fed - 2, *(right - distance for right, distance in pairs)])
    # what torch.compile left apart stays apart
    other = seen.within(order.op, compiled.is_row) < 0
    other &= ~np.isin(order.row, optimizer_rows(seen.trace))
    kept = other[reader] & other[writer] & np.array(fusable, bool)[order.case[reader]]
    return reader[kept], writer[kept]


def _may_read(left: KernelRow, right: KernelRow) -> bool:
    """Whether one fused kernel can do both: two calls of one norm, or in place, stay two."""
    if left.op == right.op == "aten::copy_" and left.call and right.call:
        to, source = left.call.tensor(0), right.call.tensor(1)
        if to and source and has_gaps(source) > has_gaps(to):
            return False  # the source is part of a larger tensor than the other copy has written
    in_place = left.op.endswith("_") and left.op != "aten::copy_"
    same = left.op == right.op and (in_place or left.role not in POINTWISE)
    # torch.compile knows what ATen's ops compute; others it calls as they are
    both = left.op.startswith("aten::") and right.op.startswith("aten::")
    return both and not same and bool(right.bytes_written)


def _chain_entry(seen: Seen, found: list[Ints]) -> dict[str, Any]:
    numbers, first, count = seen.order.case, found[0], len(found)
    cases = [seen.cases[number] for number in numbers[first].tolist()]
    near = numbers[max(int(first[0]) - REACH, 0) : int(first[-1])].tolist()
    matmuls = [case for number in near if (case := seen.cases[number]).role in MATMULS]
    traffic = traffic_of(cases, Counter(made(case) for case in matmuls))
    return {
        "ops": [bare(case.op) for case in cases],
        "kernels": len(cases),
        "could_be": "one kernel" if {case.role for case in cases} <= POINTWISE else "fused",
        "count": count,
        "bytes_saved": max(sum(case.bytes or 0 for case in cases) - traffic.least, 0),
        "intermediate": traffic.name,
        "intermediate_bytes": traffic.largest,
        "largest_bytes": max(case.bytes or 0 for case in cases),
    }


SMALL_ROLES = ("pointwise", "reduction", "copy")


@rule(
    "Small kernels in a row inside CUDA graphs",
    "gpu",
    realised=0.5,
    example="llama_decode_cuda_graph_2layers",
)
def fusable_in_graphs(seen: Seen) -> Found:
    """Small kernels in a row inside CUDA graphs.

    What it shows: pointwise kernels, reductions and copies of PyTorch that a graph runs one after
    the other: how many per step, in how many runs, and which parts of the model they belong to.

    Why it matters: a graph saves launches, not memory traffic. Each of these kernels reads what the
    one before wrote. `torch.compile` writes one kernel for them. On an H200 (torch 2.11) a
    Llama-shaped decode step took 1,021 us of GPU time in a graph of eager kernels, and 571 us in a
    graph of compiled ones.

    How it is computed: kernels that a graph launch started, in order of time on their stream; runs
    of two and more ATen kernels of these roles, copies alone left out. One kernel of each run
    stays, which takes at least as long as the shortest. The saving is at most the time of the
    others. Kernels that a compiler generated are left out: it chose not to fuse them.

    When it is wrong: kernels inside a graph have no shapes. The trace shows their order, not that
    one reads the result of another.
    """
    rows, run = _small_runs(seen)
    if not len(rows):
        return
    length, numbers = seen.gpu.length[rows], distinct(run)
    shortest = np.full(int(run.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, run, length)
    saved = seen.step(int(length.sum()) - int(shortest[numbers].sum()))
    kernels, fewest, ns = seen.each(len(rows)), seen.each(len(numbers)), seen.ns(rows)
    count = f"{plural(kernels, 'kernel')} {seen.per} in CUDA graphs"
    most = listing(seen.costliest_groups(rows))
    detail = (
        f"Kernels of PyTorch that follow one another take {time_text(ns)} "
        f"{seen.per}, most in {most}. One kernel for each run saves at most {time_text(saved)}. "
        "The trace shows their order, not that one reads the result of another."
    )
    evidence = {"kernels": kernels, "runs": fewest, "ns": ns}
    title, fix = f"{count} could be as few as {fewest:,}", "fuse with torch.compile"
    yield seen.found(title, detail, evidence, seen.gpu.id[rows], saved or None, fix)


def _small_runs(seen: Seen) -> tuple[Ints, Ints]:
    """Rows of `gpu` in runs of at least two small kernels, and the number of each one's run."""
    gpu, order, roles = seen.gpu, seen.order, seen.trace.work_roles
    mine = graph_rows(seen.trace)
    mine = mine[gpu.usable[mine] & seen.counted[mine]]
    mine = mine[np.lexsort((gpu.start[mine], gpu.lane[mine]))]
    if not len(mine):
        return mine, mine
    aten = np.zeros(len(gpu), bool)
    is_aten = np.array([case.id.family.startswith("aten_") for case in seen.cases], bool)
    aten[order.row] = is_aten[order.case]
    small = (aten & np.isin(roles, SMALL_ROLES))[mine]
    breaks = np.ones(len(mine), bool)
    breaks[1:] = (gpu.launch[mine[1:]] != gpu.launch[mine[:-1]]) | ~small[1:] | ~small[:-1]
    breaks[1:] |= gpu.lane[mine[1:]] != gpu.lane[mine[:-1]]
    run = np.cumsum(breaks) - 1
    computes = np.bincount(run, weights=small & (roles[mine] != "copy")) > 0
    kept = ((np.bincount(run) > 1) & computes)[run]
    return mine[kept], run[kept]


# Groups: compiling a model leaves its optimizer and the buckets of DDP as they are.
UNFUSED_GROUPS = ("optimizer", "DDP buckets")
SMALL_REACH = (
    1,
    2,
)  # a matmul may lie between two kernels that fuse: gelu, then a matmul, then mul
# Below this share of the step the gain is within what two recordings differ by: on an H200 a
# matmul of 8192 with ReLU could save 2% and took 1,678 us eager, 1,681 us compiled.
LITTLE_SHARE = 0.1
# Guards and the generated wrapper of one matmul cost this much without the profiler; 73 us with a
# reshape, 86 to 109 us in a CUDA graph (an H200's host, torch 2.11).
COMPILED_CALL_NS = 65_900
# The profiler slows the host by 2.8 to 7.5 times in calls below 100 us (13 recordings, H200).
SLOWER = 3
# Of the gaps between ops of a model 99% are shorter (eager H200 and H100 traces). Longer ones are
# other work: 55 ms for a new plan of cuDNN, allocations, data loading.
LONGEST_NS = 1_000_000
# With more kernel time than this in kernels of no known family, what fuses is unknown.
UNKNOWN_SHARE = 0.4


class StepParts(Struct, frozen=True):
    """What a step consists of, in ns; `small` and `matmuls` are rows of `gpu`."""

    step_ns: float
    dispatch_ns: float
    busy_ns: float
    small: Ints
    small_ns: float
    matmuls: Ints
    matmul_ns: float


@rule(
    "Whether compiling can help",
    "gpu ops launches clock steps",
    fixes="compile cuda_graph",
    example="llama_train_eager",
)
def compile_triage(seen: Seen) -> Found:
    """Whether compiling can help, from one eager trace.

    What it shows: which of three is the cost of a step: dispatch (the GPU waits for the host), many
    kernels that fuse (pointwise, reductions, copies), or matmuls and attention. And so whether
    `torch.compile` can help, where, and by how much at most.

    Why it matters: compiling removes dispatch (one call for many ops, none with a CUDA graph) and
    fuses kernels. Matmuls and attention stay in the same libraries' kernels. A step that consists
    of them gains nothing. On an H200 (torch 2.11): 18 small kernels took 375 us eager, 254 us
    compiled and 86 us with `mode="reduce-overhead"`; RMSNorm and activations around one matmul
    1,028 to 318 us; one matmul of 8192 with ReLU 1,678 to 1,681 us.

    How it is computed: in traces without compiled code, graphs and captures; medians over the
    steps. Dispatch is the idle time of the GPU while the host ran ops or the Python between them,
    in gaps up to 1 ms, of the step with the median idle time; where a run record beside the trace
    has the time without the profiler, at most the idle time that this leaves. Kernels that fuse are
    ATen's, copies on the device and normalizations; optimizers, collectives, the buckets of DDP and
    other kernels of libraries do not count. A vectorized kernel without another of them before or
    after it has nothing to fuse with. What compiling saves is predicted by the fixes `compile` and
    `cuda_graph`. A step that a compiled call on the host outlasts gains nothing.

    When it is wrong: a graph break or a recompilation keeps dispatch. A compiled program may choose
    other kernels for matmuls (`mode="max-autotune"`). Without a run record the host's times include
    profiler overhead, so dispatch is less without it.
    """
    parts = _step_parts(seen) if _eager(seen) else None
    if parts is None or not parts.busy_ns or not parts.step_ns:
        return
    recorded = bounds.idle_limit_ns(seen.trace) is not None
    note = "" if recorded or not parts.dispatch_ns else " (includes profiler overhead)"
    small, matmuls = (seen.each(len(rows)) for rows in (parts.small, parts.matmuls))
    where = f" (most in {most})" if (most := listing(seen.costliest_groups(parts.small))) else ""
    convolved = ", convolutions" if any(case.role == "conv" for case in seen.cases) else ""
    detail = (
        f"{seen.per.capitalize()}: dispatch {time_text(parts.dispatch_ns)}{note}; "
        f"{plural(small, 'fusable kernel')} {time_text(parts.small_ns)}"
        f"{where}; {plural(matmuls, 'kernel')} of matmuls{convolved} and "
        f"attention {time_text(parts.matmul_ns)}."
    )
    evidence = {
        "dispatch_ns": round(parts.dispatch_ns),
        "small_kernels": small,
        "small_ns": round(parts.small_ns),
        "matmuls": matmuls,
        "matmul_ns": round(parts.matmul_ns),
        "busy_ns": round(parts.busy_ns),
    }
    events = seen.order.events_of(seen.order.counts)
    yield seen.found(_triage_title(parts, recorded), detail, evidence, events)


def _triage_title(parts: StepParts, recorded: bool) -> str:
    """The answer. Dispatch counts as most of it if that holds too for a host that the profiler made
    slower.
    """
    slower = 1 if recorded else SLOWER
    if parts.step_ns < COMPILED_CALL_NS * slower and parts.busy_ns < COMPILED_CALL_NS:
        profiled = ("", "") if recorded else (" with the profiler", " without it")
        step = f"a step takes {time_text(parts.step_ns)}{profiled[0]}"
        call = f"a compiled call costs {COMPILED_CALL_NS / 1000:.0f} us{profiled[1]}"
        return f"Compiling can hardly help: {step}; {call}"
    share = min((parts.dispatch_ns + parts.small_ns) / parts.step_ns, 1.0)
    taken = f"dispatch and fusable kernels take {percent_text(share)} of the step"
    if share < LITTLE_SHARE:
        return f"Compiling can hardly help: {taken}"
    fusing = parts.dispatch_ns <= slower * parts.small_ns
    return f"Compiling can help: {taken}, mostly {'fusable kernels' if fusing else 'dispatch'}"


def _eager(seen: Seen) -> bool:
    """Whether ops launched most kernels, none from compiled code or a graph, and most are known."""
    order, host = seen.order, seen.host
    compiled = any(case.id.family.startswith("inductor") for case in seen.cases)
    called = any(name.startswith("Torch-Compiled Region") for name in host.names)
    graphs = bool(seen.gpu.in_graph.any()) or len(host.captures.start) > 0
    mine = order.op[order.counts]
    launched = order.steps and len(mine) and (mine >= 0).mean() > bounds.MOSTLY_IDLE
    ns = sum(case.ns for case in seen.cases)
    unknown = sum(case.ns for case in seen.cases if case.role == "other") > UNKNOWN_SHARE * ns
    return bool(launched) and not (compiled or called or graphs or unknown)


def _step_parts(seen: Seen) -> StepParts:
    trace, gpu, order = seen.trace, seen.gpu, seen.order

    def rows(launches: Bools) -> Bools:
        found = np.zeros(len(gpu), bool)
        found[order.row[launches]] = True
        return found

    copied = gpu.is_memcpy & seen.host.named(lambda name: "DtoD" in name)[gpu.id]
    plain = ["vectorized_elementwise_kernel" in case.name for case in seen.cases]
    alone = [_small(case) and not each for case, each in zip(seen.cases, plain, strict=True)]
    found: Bools = np.array(alone, bool)[seen.order.case]
    for far in SMALL_REACH:
        places = seen.following(far, lambda left, right: _small(left) and _small(right))
        found[places], found[places - far] = True, True
    small = (rows(found) | copied) & ~np.isin(trace.grouped.names, UNFUSED_GROUPS)[
        trace.grouped.group
    ]
    matmuls = rows(np.array([case.role in OPAQUE for case in seen.cases])[order.case])
    steps = [(span.work, trace.spans.since(span)) for span in trace.spans.steps if len(span.work)]

    def median(chosen: Bools) -> float:
        return float(np.median([gpu.busy(work[chosen[work]], at) for work, at in steps]))

    # idle time while the host ran ops, or Python between them
    waits = seen.idle.of("launch", "host") & (seen.idle.length <= LONGEST_NS)
    dispatch = float(seen.limited(seen.idle.length[waits].sum()))
    counted = trace.spans.step_of_work() >= 0
    spent = [time.wall_ns for span in trace.spans.steps if (time := bounds.spent(trace, span))]
    return StepParts(
        float(np.median(spent)) if spent else 0.0,
        dispatch,
        median(np.ones(len(gpu), bool)),
        np.flatnonzero(small & counted),
        median(small),
        np.flatnonzero(matmuls & counted),
        median(matmuls),
    )


def _small(case: KernelRow) -> bool:
    aten = case.id.family.startswith("aten_") and case.id.family != "aten_multi_tensor"
    # Inductor writes its own normalization, also for what eager mode gives to cuDNN
    norm = case.role == "normalization" and (case.op or "").startswith("aten::")
    return norm or (aten and case.role not in (*OPAQUE, "sort", "optimizer"))


@rule(
    "Kernels of compiled code that stay apart, and why", "ops compiler", example="mlp_max_autotune"
)
def compiled_apart(seen: Seen) -> Found:
    """Kernels of compiled code that stay apart, and the compiler's reason.

    What it shows: the graph breaks that part the kernels of a step, by the user's line, and the
    pairs of neighbouring kernels in one graph that share data and are two kernels, with the reason.

    Why it matters: across a graph break nothing is fused, and Python runs between the two graphs.
    Two kernels in one graph write a tensor and read it again. For most of such pairs the reason is
    a library kernel (extern): a GEMM or attention.

    How it is computed: from the compiler's records beside the trace. The pairs are those of
    `foretrace why --not-fused`; the saving is at most that of the pair that costs most. Where no
    pair across a graph break is known to share data, the break parts a launch from the next one on
    its stream that belongs to another graph.

    When it is wrong: two kernels on both sides of a break need not share data. A library's matmul
    may be faster alone than a template with an epilogue: `mode="max-autotune"` measures both.
    """
    run = seen.trace.compiler_run if seen.trace.compiled else None
    if run is None:
        return
    from foretrace.why import explain

    pairs = [one for one in explain(run, seen.trace).not_fused if one.at_most_ns]
    pairs.sort(key=lambda one: -(one.at_most_ns or 0))
    broken = [one for one in pairs if one.stopped_at]
    yield from list(_breaks(seen, run, broken) if broken else _borders(seen))[:1]
    if whole := [one for one in pairs if not one.stopped_at]:
        yield _in_graphs(seen, whole)


def _breaks(seen: Seen, run: CompilerRun, pairs: list[NotFused]) -> Iterator[Finding]:
    """Kernels of two graphs, one of which reads what the other wrote."""
    every = [one for each in run.compilations for one in each.breaks]
    for one in pairs:
        found = next((each for each in every if each.source == one.stopped_at), None)
        if found is not None:
            names, saved = f"{_kernel_text(one.a)} and {_kernel_text(one.b)}", _per_step(seen, one)
            yield _apart_finding(seen, names, found, every, _events(seen, one), saved)


def _borders(seen: Seen) -> Iterator[Finding]:
    """Neighbouring launches of two graphs, where what they share is not known."""
    compiled = seen.trace.compiled
    rows = zip(seen.order.event.tolist(), seen.order.lane.tolist(), strict=True)
    for (before, lane), (behind, other) in pairwise(rows):
        a, b = compiled.get(before), compiled.get(behind)
        if a and b and lane == other and a.compilation is not b.compilation:
            for one in a.compilation.breaks[:1]:
                names = f"{_ops_text(a)} and {_ops_text(b)}"
                yield _apart_finding(seen, names, one, [one], [before, behind])


def _apart_finding(
    seen: Seen,
    names: str,
    one: GraphBreak,
    every: Sequence[GraphBreak],
    events: Sequence[int],
    saved: int | None = None,
) -> Finding:
    place, lines = one.source.place, {each.source.place: each.reason for each in every}
    more = f" {plural(len(lines) - 1, 'more line')} of graph breaks." if len(lines) > 1 else ""
    hint = f" {one.hint.strip()}" if one.hint else ""
    reason = one.reason.strip().rstrip(".")
    title = f"{names} are separate: graph break at {place}"
    detail = f"Dynamo ended a graph there: {reason}.{hint} Nothing is fused across it.{more}"
    evidence = {"breaks": [{"line": line, "reason": text} for line, text in lines.items()]}
    fix = f"remove the graph break at {place}"
    return seen.found(title, detail, evidence, events, saved, fix)


def _ops_text(launch: CompiledLaunch) -> str:
    from foretrace.trace.compiled.provenance import performed

    named = sorted(performed(launch)) or [launch.call.kernel.rpartition(".")[2]]
    return "+".join(named[:3]) + ("+…" if len(named) > 3 else "")


def _in_graphs(seen: Seen, pairs: list[NotFused]) -> Finding:
    """The neighbours in one graph, the largest saving first."""
    first, saved = pairs[0], _per_step(seen, pairs[0])
    unit = "per step" if seen.trace.has("steps") else "in the whole recording"
    where = shortened([line.place for line in first.sources], 2)
    title = f"{_kernel_text(first.a)} and {_kernel_text(first.b)} are separate: {first.reason}"
    moved = f"one kernel would move {bytes_text(first.bytes)} less, " if first.bytes else ""
    detail = (
        f"{where}: {moved}at most {time_text(saved)} {unit}. "
        f"{plural(len(pairs), 'pair')} of neighbours in compiled graphs share data; "
        "`foretrace why --not-fused` lists them."
    )
    words = ("a", "b", "reason", "inductor", "bytes", "at_most_ns")
    shown = [
        {word: getattr(one, word) for word in words}
        | {"lines": [line.place for line in one.sources]}
        for one in pairs[:LISTED]
    ]
    evidence = {"pairs": shown, "count": len(pairs)}
    return seen.found(title, detail, evidence, _events(seen, first), saved)


def _per_step(seen: Seen, one: NotFused) -> int:
    """What a pair costs at most in a step; on a CPU no step has GPU work."""
    steps = seen.order.steps or len(seen.trace.spans.steps) or 1
    return round((one.at_most_ns or 0) / steps)


def _events(seen: Seen, one: NotFused) -> list[int]:
    """The launches of both kernels of a pair."""
    regions = {one.region, one.b_region or one.region}
    return sorted(
        event
        for event, launch in seen.trace.compiled.items()
        if launch.compilation.id in regions
        and (launch.call.handle or launch.call.kernel) in (one.a, one.b)
    )


def _kernel_text(handle: str) -> str:
    """`extern_kernels.mm:1` -> `mm`, and a generated kernel as tables call it."""
    name = handle.rpartition(":")[0] or handle
    known = families.decode(name)
    generated = known.family.startswith("inductor")
    return known.short if generated else name.removeprefix("extern_kernels.")


SPELT_OUT = 3  # kernels that the detail spells out; the evidence has more
# Ops that a library runs, by the role of its kernels; attention ops begin with the prefix.
_MATMULS = "mm addmm bmm baddbmm _scaled_mm _int_mm matmul linear"
RUN_BY = {
    **dict.fromkeys(_MATMULS.split(), "gemm"),
    **dict.fromkeys(("convolution", "convolution_backward"), "conv"),
}
ATTENTION_OPS = (
    "_scaled_dot_product",
    "_flash_attention",
    "_efficient_attention",
    "_cudnn_attention",
)


@rule("Kernels that TorchInductor generated", "gpu", example="mlp_compiled")
def inductor_fusions(seen: Seen) -> Found:
    """The kernels that TorchInductor generated, and the ops they stem from.

    What it shows: for every kernel that Inductor generated, its origin ops, with views listed
    apart, how often it ran and how long.

    Why it matters: this is what `torch.compile` did to the model. Ops that share a kernel need not
    pass tensors to each other through memory.

    How it is computed: from the kernel's name, which lists the ops of the graph that the kernel
    stems from, in alphabetical order (not in the order of execution), and its kind: pointwise,
    reduction, persistent reduction, or template (a matmul or attention written in Triton). One
    `kernel_hash` is one kernel, however often and with whatever shapes it runs.

    When it is wrong: an origin op need not run in the kernel, or not all of it. `addmm` in the name
    of a pointwise kernel means that something of that op ended up there, often its bias. Where the
    trace has kernels of a library for matmuls or attention, such ops are left out of kernels that
    are not templates. The compiler's records beside the trace (`foretrace record --why`) map each
    kernel to the ops and lines of the program; they replace the names.
    """
    whole = seen.where(_is_generated)
    if whole is None:
        return
    libraries = {case.role for case in seen.cases if not _is_generated(case)}
    order, by_number = seen.order, {case.number: case for case in whole.cases}
    rows = np.flatnonzero(order.counts & np.isin(order.case, list(by_number)))
    names = [by_number[number].name for number in order.case[rows].tolist()]
    launches = pl.DataFrame(
        {"name": names, "case": order.case[rows], "event": order.op[rows], "ns": order.length[rows]}
    )
    triton = seen.trace.origins.tables["triton"]
    hashes = triton.select(pl.col("event").cast(pl.Int64), "kernel_hash")
    code = pl.col("kernel_hash")
    found = (
        launches.join(hashes, on="event", how="left")
        .with_columns(code.fill_null(code.drop_nulls().first().over("name")))
        .group_by("name", "kernel_hash")
        .agg(pl.col("case").mode().min(), pl.len(), pl.col("ns").median(), sum=pl.col("ns").sum())
        .sort("sum", "name", descending=[True, False])
    )
    kernels = [
        _generated_entry(seen, by_number[number], count, median, libraries)
        for _, _, number, count, median, _ in found.iter_rows()
    ]
    lines = [_generated_text(entry) for entry in kernels[:SPELT_OUT]]
    rest = max(len(kernels) - SPELT_OUT, 0)
    more = f"; {plural(rest, 'more kernel')} in the evidence" if rest else ""
    times = f"{times_text(whole.count)} {seen.per}"
    title = f"Inductor generated {plural(len(kernels), 'kernel')}, launched {times}"
    source = "A name lists the ops that a kernel stems from, not what it computes"
    if all("sources" in entry for entry in kernels):
        source = "The ops are from the compiler's records"
    detail = (
        f"Origin ops by kernel: {'; '.join(lines)}{more}. Total: {time_text(whole.ns)} "
        f"{seen.per}. {source}."
    )
    evidence = {"kernels": kernels[: 4 * LISTED], "launches": whole.count, "ns": whole.ns}
    yield seen.found(title, detail, evidence, whole.events)


def _is_generated(case: KernelRow) -> bool:
    return case.id.family.startswith("inductor")


def _generated_text(entry: dict[str, Any]) -> str:
    lines = entry.get("sources", [])
    where = f" from {shortened(lines, 2)}" if lines else ""
    ops = shortened(entry["ops"]) or "no op in the name"
    return f"{ops}{where} ({str(entry['kind'] or 'other').replace('_', ' ')})"


def _generated_entry(
    seen: Seen, case: KernelRow, count: int, median: float, libraries: set[str]
) -> dict[str, Any]:
    def run_by(op: str) -> str:
        """The role of the library kernels that run this op; "" for ops that Inductor generates."""
        return "attention" if op.startswith(ATTENTION_OPS) else RUN_BY.get(op, "")

    ops, template = case.id.get("ops") or [], str(case.id.get("category")) == "template"
    outside = [op for op in ops if not template and run_by(op) in libraries]
    performed, lines = _recorded_ops(seen, case)
    return {
        "kernel": case.name,
        "kind": case.id.get("category"),
        "ops": performed or [op for op in ops if op not in VIEWS and op not in outside],
        "views": [op for op in ops if op in VIEWS],
        "run_by_a_library": outside,
        "count": seen.each(count),
        "median_ns": median,
    } | ({"sources": lines} if performed else {})


def _recorded_ops(seen: Seen, case: KernelRow) -> tuple[list[str], list[str]]:
    """The ops of the program that a case performs in part, and their lines, where recorded."""
    compiled = seen.trace.compiled
    events = seen.trace.kernel_cases["kernels"][case.number].to_list() if compiled else []
    found = (compiled.get(event) for event in events)
    launches = list({id(each.call): each for each in found if each is not None}.values())
    if not launches:
        return [], []
    from foretrace.trace.compiled.provenance import begun, performed

    ops = frozenset().union(*(performed(each) | begun(each) for each in launches))
    lines = sorted({line for each in launches for line in each.lines})
    return sorted(ops), list(dict.fromkeys(line.place for line in lines))


REASONS_SHOWN = 3  # reasons in the text; the evidence has all
MARK_DYNAMIC = "mark the size that changes (torch._dynamo.mark_dynamic)"


@rule(
    "Code that torch.compile compiled more than once",
    "ops",
    realised=0.9,
    example="matmul_add_4096_compiled",
)
def recompilation(seen: Seen) -> Found:
    """Code that torch.compile compiled more than once.

    What it shows: compiled regions whose number tells that their code was compiled before
    (`Torch-Compiled Region: 0/1` is the second version of frame 0), several versions in use in one
    trace, and compilation during the recording.

    Why it matters: every version cost a compilation, from a second to minutes: 1.4 s for the small
    MLP of the ladder on an H200 when the batch changed. A new shape, a new stride or a changed
    Python value makes Dynamo compile again. The second time it leaves that dimension open, so that
    a third size costs nothing more.

    How it is computed: from the names of the host ranges that Dynamo records, and from its own
    timing ranges (`... (dynamo_timed)`). Where code was compiled again in the recording, the saving
    is at most the time spent compiling there.

    When it is wrong: a version number counts compilations since the program started, so the first
    recording after a deliberate warm-up with several sizes shows them too. The compiler's records
    beside the trace (`foretrace record --why`) tell the guard that failed; a trace does not.
    """
    host = seen.host
    known = {name: found for name in host.names if (found := compiled.version(name))}
    versions: dict[int, set[int]] = {}
    for frame, version in known.values():
        versions.setdefault(frame, set()).add(version)
    again = {str(frame): sorted(found) for frame, found in sorted(versions.items()) if max(found)}
    compiling = np.flatnonzero(host.lasting & host.named(compiled.is_compilation))
    if not again and not len(compiling):
        return
    spent = IntervalUnion(host.start[compiling], host.end[compiling])
    ns = seen.step(int((spent.end - spent.start).sum()))
    times = sum(found[-1] for found in again.values())
    now = "The recording contains no compilation. "
    if len(compiling):
        now = f"Compiling took {time_text(ns)} {seen.per}. "
    frames = [
        f"frame {frame} ran version{'s' if len(found) > 1 else ''} {listing([*map(str, found)])}"
        for frame, found in list(again.items())[:4]
    ]
    title = "torch.compile compiled code during the recording"
    if again:
        title = f"torch.compile recompiled {times_text(times)} since the process began"
    detail = f"{now}{listing(frames).capitalize()} (0 is the first)." if frames else now.strip()
    reasons = _reasons(seen) if again else {}
    if reasons:
        told = [
            f"{version} because {why}" for version, why in list(reasons.items())[:REASONS_SHOWN]
        ]
        detail += f" Recompiled: {listing(told)}."
    evidence = {"recompilations": times, "versions": again, "compile_ns": ns}
    evidence |= {"reasons": reasons} if reasons else {}
    later = {name for name, (_, version) in known.items() if version}
    events = np.union1d(compiling, np.flatnonzero(host.named(later.__contains__)))
    saved, fix = (ns, MARK_DYNAMIC) if len(compiling) and again else (None, "")
    yield seen.found(title, detail, evidence, events, saved, fix)


def _reasons(seen: Seen) -> dict[str, str]:
    """The guard that failed before each version, where the compiler's records have it."""
    run = seen.trace.compiler_run
    return {
        each.id: guard_text(each.recompile[-1])
        for each in (run.compilations if run else ())
        if each.recompile and each.rank in (None, seen.trace.about.rank)
    }


def guard_text(guard: GuardFailure) -> str:
    """`size at index 0 of x is 32, not 64`."""
    if not guard.what or not guard.expected or not guard.actual:
        return f"this guard failed: {guard.text}"
    return f"{guard.what} of {guard.subject} is {guard.actual}, not {guard.expected}"
