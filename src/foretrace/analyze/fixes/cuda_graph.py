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

from foretrace.analyze.fixes._changes import Changes
from foretrace.analyze.fixes._host import issuing, optimizing, share, waits_text
from foretrace.analyze.fixes._step import GraphChange, Proposal, Proposals, Step, fix
from foretrace.base.units import plural, time_text

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


def _made(step: Step) -> bool:
    return bool(step.trace.host.is_graph_launch[step.graph.calls].any())


@fix("Launch a step as one CUDA graph", "gpu", made=_made, general=True)
def _find(step: Step) -> Proposals:
    host, calls = step.trace.host, step.graph.calls
    launches = int(host.is_launch[calls].sum())
    alone, steps = step.repeats < REPEATED, step.trace.spans.steps
    # a loop has steps; any other call that ran once is no work for a graph
    once = alone and all(each.event != step.span.event for each in steps)
    if launches < FEW or once or _made(step):
        return
    busy = time_text(step.trace.spans.busy(step.span))
    yield Proposal(
        COMPILED if step.compiled else EAGER,
        f"{plural(launches, 'launch', 'launches')} per step for {busy} of GPU work"
        + (UNKNOWN if alone else ""),
        *_changes(step),
        first=", ".join(_obstacles(step)),
        events=tuple(calls[host.is_launch[calls]][:50].tolist()),
    )


def _changes(step: Step) -> Changes:
    host, removed = step.trace.host, issuing(step, optimizing(step))
    began = host.start[step.graph.calls[host.is_launch[step.graph.calls]]]
    kernels = sum(int(((began >= start) & (began < end)).sum()) for start, end in removed)
    fixed = step.trains * BACKWARD_NS + len(step.ops(ACCUMULATE)) * GRADIENT_NS
    wanted = [fixed + call + kernels * each for call, each in zip(CALL_NS, KERNEL_NS, strict=True)]
    free = frozenset(step.waiting.tolist())
    usual, best, worst = (
        GraphChange(removed, share(step, removed, ns), unwaited=free) for ns in wanted
    )
    return usual, best, worst


def _obstacles(step: Step) -> Iterator[str]:
    """What a graph cannot hold."""
    if waiting := waits_text(step):
        yield waiting
    allocating = int(step.named(ALLOCATES)[step.graph.calls].sum())
    if allocating:
        yield plural(allocating, "allocation of GPU memory", "allocations of GPU memory")
    # steps that launch different kernels; the numbers of AdamW's foreach ops always differ
    order = step.trace.order
    number = step.trace.spans.step_of_work()[order.row]
    keys = [(case.name, str(case.call.dims) if case.call else case.number) for case in order.cases]
    shape = np.unique([str(key) for key in keys], return_inverse=True)[1][order.case]
    steps = {np.sort(shape[number == at]).tobytes() for at in np.unique(number[number >= 0])}
    if len(steps) > 1:
        yield "shapes that differ between steps"
