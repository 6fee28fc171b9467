"""Launch a step as one CUDA graph.

What it looks for: a host that needs longer to issue the work of a step than the GPU to do it.

What must hold: a graph has fixed shapes and addresses. So no call of the step waits for the GPU,
none allocates or frees memory of the device, no copy comes from pageable memory, and every step
launches the same kernels. Where one of these fails, the fix says what must go first, and comes
last. Of one recorded step it says that the shapes of others are unknown. A batch of a serving
engine counts as a step: the engine itself has the graphs, and did not use one for this batch.

What changes: one launch brings all work that the model issues; with a backward pass two do, and the
optimizer keeps its own time. So do the DataLoader and long stretches of Python. A call in
`mode="reduce-overhead"` keeps 105 us on the host and 1.5 us for each kernel (an H200's host, torch
2.11: 107 us with 1 kernel, 165 us with 4, 189 us with 48): guards, copies of the inputs, the
launch. With a backward pass it keeps 500 us, and 8 us for each gradient that is accumulated. Eager
kernels stay as they are: what `mode="reduce-overhead"` fuses besides is the fix `compile`. The
graphs of an engine hold its layers: what it does before and after them keeps its time, and so do
the attention ops of a prefill. Each part costs 30 us.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.base.patterns import regex
from foretrace.base.units import count_text, plural, time_text
from foretrace.look.fixes._changes import Changes, Stretches, of_each
from foretrace.look.fixes._host import issuing, optimizing, share, waits_text
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix, shown
from foretrace.trace.serving import ServedBatch

# Compiled code gets the graph by a mode; of eager code that mode would fuse the kernels as well.
COMPILED = 'CUDA graph (torch.compile(mode="reduce-overhead"))'
EAGER = "CUDA graph (torch.cuda.make_graphed_callables)"
# By a call, and by each kernel in it: as expected, at best, at worst.
SPENT_NS = ((105_000, 1_500), (85_000, 500), (165_000, 3_000))
BACKWARD_NS, GRADIENT_NS = 400_000, 8_000
PART_NS = 30_000  # to launch one of the graphs of a prefill, with the Python around it
ATTENTION = regex(r"attention_with_output|unified_attention")
ACCUMULATE = "torch::autograd::AccumulateGrad"
REPEATED = 2
UNKNOWN = "; other shapes are unknown"
ALLOCATES = frozenset(
    {"cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "cudaHostAlloc"}
)


def _made(step: Step) -> bool:
    return bool(step.trace.host.is_graph_launch[step.graph.calls].any())


@fix("Launch a step as one CUDA graph", "gpu", made=_made, general=True)
def _find(step: Step) -> Proposals:
    host, calls = step.trace.host, step.graph.calls
    launches = int(host.is_launch[calls].sum())
    alone, steps, served = step.repeats < REPEATED, step.trace.spans.steps, step.trace.served
    pairs = zip(served.spans, served.batches, strict=True)
    batch = next((batch for span, batch in pairs if span.event == step.span.event), None)
    # a loop has steps; any other call that ran once is no work for a graph
    once = alone and not batch and all(each.event != step.span.event for each in steps)
    if launches < 8 or once or _made(step):  # launches: less than this is no work for a graph
        return
    busy = time_text(step.trace.spans.busy(step.span))
    order = COMPILED if step.compiled else EAGER
    if batch:  # the engine's graphs are off, or for smaller batches
        setting = "no disable_cuda_graph, a larger cuda_graph_max_bs"
        if step.span.name.startswith("execute_"):
            setting = f"no enforce_eager, sizes up to {count_text(batch.tokens)}"
        order = f"CUDA graph in the engine ({setting})"
    why = f"{plural(launches, 'launch', 'launches')} per step for {busy} of GPU work"
    why += UNKNOWN if alone else ""
    first = "" if batch else ", ".join(_obstacles(step))
    events = shown(calls[host.is_launch[calls]])
    yield Proposal(order, why, *_changes(step, batch), first, events=events)


def _outside(step: Step, batch: ServedBatch | None) -> Stretches:
    """What no graph of an engine holds: what is no layer, and the attention of a prefill."""
    host, span = step.trace.host, step.span
    ops = step.outermost(step.inside & host.is_op & host.named(ATTENTION.search))
    if batch is None or not len(ops):
        return ()
    edges = (span.start_ns, int(host.start[ops[0]])), (int(host.end[ops[-1]]), span.end_ns)
    return edges if batch.kind == "decode" else (*edges, *step.stretches(ops.tolist()))


def _changes(step: Step, batch: ServedBatch | None) -> Changes:
    host, outside = step.trace.host, _outside(step, batch)
    removed = issuing(step, optimizing(step), outside)
    began = host.start[step.graph.calls[host.is_launch[step.graph.calls]]]
    kernels = sum(int(((began >= start) & (began < end)).sum()) for start, end in removed)
    fixed = (
        len(outside) * PART_NS + step.trains * BACKWARD_NS + len(step.ops(ACCUMULATE)) * GRADIENT_NS
    )
    free = frozenset[int]() if batch else frozenset(step.waiting.tolist())

    def change(spent: tuple[int, int]) -> GraphChange:
        left = share(step, removed, fixed + spent[0] + kernels * spent[1])
        return GraphChange(removed, left, unwaited=free)

    return of_each(change, SPENT_NS)


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
