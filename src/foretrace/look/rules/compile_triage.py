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
libraries do not count. A vectorized kernel without another of them before or after it has nothing
to fuse with. What compiling saves is predicted by the fixes `compile` and `cuda_graph`. A step that
a compiled call on the host outlasts gains nothing.

When it is wrong: a graph break or a recompilation keeps dispatch. A compiled program may choose
other kernels for matmuls (`mode="max-autotune"`). Without a run record the host's times include
profiler overhead, so dispatch is less without it.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.base.units import percent_text, plural, time_text
from foretrace.look.rules._seen import Found, Seen, listing, rule
from foretrace.trace import bounds
from foretrace.trace.intervals import Bools, Ints
from foretrace.trace.kernels import Case

MATMULS = ("gemm", "gemv", "conv", "attention")
# Groups: compiling a model leaves its optimizer and the buckets of DDP as they are.
KEPT = ("optimizer", "DDP buckets")
REACH = (1, 2)  # a matmul may lie between two kernels that fuse: gelu, then a matmul, then mul
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


class Parts(Struct, frozen=True):
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
def _check(seen: Seen) -> Found:
    parts = _parts(seen) if _eager(seen) else None
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
    yield seen.found(_title(parts, recorded), detail, evidence, events)


def _title(parts: Parts, recorded: bool) -> str:
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
    if share < HARDLY:
        return f"Compiling can hardly help: {taken}"
    fusing = parts.dispatch_ns <= slower * parts.small_ns
    return f"Compiling can help: {taken}, mostly {'fusable kernels' if fusing else 'dispatch'}"


def _eager(seen: Seen) -> bool:
    """Whether ops launched most kernels, none from compiled code or a graph, and most are known."""
    order, host = seen.order, seen.host
    compiled = any(case.id.family.startswith("inductor") for case in order.cases)
    called = any(name.startswith("Torch-Compiled Region") for name in host.names)
    graphs = bool(seen.gpu.in_graph.any()) or len(host.captures.start) > 0
    mine = order.op[order.counts]
    launched = order.steps and len(mine) and (mine >= 0).mean() > bounds.MOSTLY_IDLE
    ns = sum(case.ns for case in order.cases)
    unknown = sum(case.ns for case in order.cases if case.role == "other") > UNKNOWN * ns
    return bool(launched) and not (compiled or called or graphs or unknown)


def _parts(seen: Seen) -> Parts:
    trace, gpu, order = seen.trace, seen.gpu, seen.order

    def rows(launches: Bools) -> Bools:
        found = np.zeros(len(gpu), bool)
        found[order.row[launches]] = True
        return found

    copied = gpu.is_memcpy & seen.host.named(lambda name: "DtoD" in name)[gpu.id]
    plain = ["vectorized_elementwise_kernel" in case.name for case in seen.cases]
    alone = [_small(case) and not each for case, each in zip(seen.cases, plain, strict=True)]
    found: Bools = np.array(alone, bool)[seen.order.case]
    for far in REACH:
        places = seen.following(far, lambda left, right: _small(left) and _small(right))
        found[places], found[places - far] = True, True
    small = (rows(found) | copied) & ~np.isin(trace.grouped.names, KEPT)[trace.grouped.group]
    matmuls = rows(np.array([case.role in MATMULS for case in order.cases])[order.case])
    steps = [(span.work, trace.spans.since(span)) for span in trace.spans.steps if len(span.work)]

    def median(chosen: Bools) -> float:
        return float(np.median([gpu.busy(work[chosen[work]], at) for work, at in steps]))

    # idle time while the host ran ops, or Python between them
    waits = seen.idle.of("launch", "host") & (seen.idle.length <= LONGEST_NS)
    dispatch = float(seen.limited(seen.idle.length[waits].sum()))
    counted = trace.spans.step_of_work() >= 0
    spent = [time.wall_ns for span in trace.spans.steps if (time := bounds.spent(trace, span))]
    return Parts(
        float(np.median(spent)) if spent else 0.0,
        dispatch,
        median(np.ones(len(gpu), bool)),
        np.flatnonzero(small & counted),
        median(small),
        np.flatnonzero(matmuls & counted),
        median(matmuls),
    )


def _small(case: Case) -> bool:
    aten = case.id.family.startswith("aten_") and case.id.family != "aten_multi_tensor"
    # Inductor writes its own normalization, also for what eager mode gives to cuDNN
    norm = case.role == "normalization" and (case.op or "").startswith("aten::")
    return norm or (aten and case.role not in (*MATMULS, "sort", "optimizer"))
