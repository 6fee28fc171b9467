"""Launch a step as one CUDA graph.

What it looks for: a host that needs longer to issue the work of a step than the GPU to do it.

What must hold: a graph has fixed shapes and addresses. So no call of the step waits for the GPU,
none allocates or frees memory of the device, no copy comes from pageable memory, and every step
launches the same kernels. Where one of these fails, the fix says what must go first, and comes
last. Of one recorded step it says that the shapes of others are unknown.

What changes: one launch brings all work that the model issues; with a backward pass two do, and the
optimizer keeps its own time. So do the DataLoader and long stretches of Python. A call in
`mode="reduce-overhead"` keeps 105 us on the host and 1.5 us for each kernel (an H200's host, torch
2.11: 107 us with 1 kernel, 165 us with 4, 189 us with 48): guards, copies of the inputs, the
launch. With a backward pass it keeps 500 us, and 8 us for each gradient that is accumulated. Eager
kernels stay as they are: what `mode="reduce-overhead"` fuses besides is the fix `compile`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._host import issuing, optimizing, share, waits_text
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import plural, time_text
from foretrace.model.replay import GraphChange
from foretrace.schema import compiled

# Compiled code gets the graph by a mode; of eager code that mode would fuse the kernels as well.
COMPILED = 'CUDA graph (torch.compile(mode="reduce-overhead"))'
EAGER = "CUDA graph (torch.cuda.make_graphed_callables)"
CALL_NS = (105_000, 85_000, 165_000)  # as expected, at best, at worst
KERNEL_NS = (1_500, 500, 3_000)
BACKWARD_NS, GRADIENT_NS = 400_000, 8_000
ACCUMULATE = "torch::autograd::AccumulateGrad"
REPEATED = 2
UNKNOWN = "; shapes of other steps are unknown"
FEW = 8  # launches: less than this is no work for a graph
ALLOCATES = frozenset(
    {"cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "cudaHostAlloc"}
)


def _find(step: Step) -> Iterator[Proposal]:
    host, calls = step.trace.host, step.graph.calls
    launches = int(host.is_launch[calls].sum())
    alone, steps = step.repeats < REPEATED, step.trace.spans.steps
    # a loop has steps; any other call that ran once is no work for a graph
    once = alone and all(each.event != step.span.event for each in steps)
    if launches < FEW or once or _made(step):
        return
    busy = time_text(step.trace.spans.busy(step.span))
    expected, best, worst = _changes(step)
    yield Proposal(
        COMPILED if step.trace.host.named(compiled.is_row)[step.inside].any() else EAGER,
        f"{plural(launches, 'launch', 'launches')} per step for {busy} of GPU work"
        + (UNKNOWN if alone else ""),
        expected,
        best,
        worst,
        first=", ".join(_obstacles(step)),
        events=tuple(calls[host.is_launch[calls]][:50].tolist()),
    )


def _changes(step: Step) -> list[GraphChange]:
    """As expected, at best, and at worst."""
    host, removed = step.trace.host, issuing(step, optimizing(step))
    mine = step.graph.calls[host.is_launch[step.graph.calls]]
    kernels = sum(
        int(((host.start[mine] >= start) & (host.start[mine] < end)).sum())
        for start, end in removed
    )
    gradients = len(step.ops(ACCUMULATE))
    fixed = step.trains * BACKWARD_NS + gradients * GRADIENT_NS
    wanted = [fixed + call + kernels * each for call, each in zip(CALL_NS, KERNEL_NS, strict=True)]
    unwaited = frozenset(step.waiting.tolist())
    return [GraphChange(removed, share(step, removed, ns), unwaited=unwaited) for ns in wanted]


def _obstacles(step: Step) -> Iterator[str]:
    """What a graph cannot hold."""
    calls = step.graph.calls
    if waiting := waits_text(step):
        yield waiting
    allocating = int(np.isin(calls, np.flatnonzero(step.named(ALLOCATES))).sum())
    if allocating:
        yield plural(allocating, "allocation of GPU memory", "allocations of GPU memory")
    if _varies(step):
        yield "shapes that differ between steps"


def _varies(step: Step) -> bool:
    """Whether steps launch different kernels; the numbers of AdamW's foreach ops always differ."""
    order, spans = step.trace.order, step.trace.spans
    number = spans.step_of_work()[order.row]
    keys = [(case.name, str(case.call.dims) if case.call else case.number) for case in order.cases]
    shape = np.unique([str(key) for key in keys], return_inverse=True)[1][order.case]
    steps = [np.sort(shape[number == at]).tobytes() for at in np.unique(number[number >= 0])]
    return len(set(steps)) > 1


def _made(step: Step) -> bool:
    return bool(step.trace.host.is_graph_launch[step.graph.calls].any())


FIX = Fix("cuda_graph", "Launch a step as one CUDA graph", _find, ("gpu",), _made, general=True)
