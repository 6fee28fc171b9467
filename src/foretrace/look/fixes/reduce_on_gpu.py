"""Reduce on the GPU, and copy the result.

What it looks for: a large tensor that is copied to the host, where CPU ops take it: ops that launch
nothing and have an operand of its shape.

What must hold: the ops follow the copy on its thread, and the last of them makes the tensor smaller
(`argmax`, `topk`, `mean`), or a copy brings a tensor of that shape back to the GPU.

What changes: the reduction becomes kernels that read the tensor at the memory's speed, and the copy
moves little. A cast to float32 right before the copy goes too: the GPU's reductions take 16-bit
types and add in float32. CPU ops of many milliseconds leave cold caches behind: without them the
host's other calls take less time (0.15 of it on an H200's host).
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import bytes_text
from foretrace.look.fixes._changes import of_each
from foretrace.look.fixes._host import HostCopy, host_copies
from foretrace.look.fixes._step import GraphChange, Ints, Proposal, Proposals, Step, fix

REDUCING = """
argmax argmin max min amax amin aminmax sum mean nansum std var std_mean var_mean norm
linalg_vector_norm topk any all count_nonzero median nanmedian mode logsumexp multinomial bincount
histc nonzero _unique2 unique_consecutive
"""
OPS = frozenset(f"aten::{name}" for name in REDUCING.split())
KERNEL_NS, COPY_NS, CALL_NS = 4_000.0, 2_000.0, 30_000.0  # least times of new GPU and host work
COLD_NS = 100_000  # of Python code before an op, when the caches are cold
FREE_RATE = 15e9  # bytes per second at which a host gives memory back, at least
SPEED = 0.4  # of the memory's bandwidth that a reduction reaches
LONG_NS = 5_000_000  # CPU ops after which the caches are cold
WARM = 0.3  # of the host's other times that remain then


@fix("Reduce on the GPU, copy the result", "gpu shapes")
def _find(step: Step) -> Proposals:
    if step.device is None:
        return
    up = list(host_copies(step, "HtoD"))
    for copy in host_copies(step, "DtoH"):
        ops, back = _on_cpu(step, copy, up)
        if ops:
            yield _proposal(step, copy, ops, back)


def _on_cpu(step: Step, copy: HostCopy, up: list[HostCopy]) -> tuple[list[int], HostCopy | None]:
    """The CPU ops on the copied tensor, up to one that reduces it or a copy back; else none."""
    host, found = step.trace.host, list[int]()
    back = {each.op: each for each in up if each.tensor.dims == copy.tensor.dims}
    mine = host.track == host.track[copy.op]
    after = step.outermost(step.inside & host.is_op & mine & (host.start >= host.end[copy.op]))
    for event in after.tolist():
        if found and event in back:
            return found, back[event]
        takes = any(each.dims == copy.tensor.dims for each in step.tensors(event)[:2])
        if not takes or len(step.calls_below([event])):
            continue
        if host.length[event] >= 20_000:  # an op that takes less on the CPU is a view, or no work
            found.append(event)
        if step.name(event) in OPS:
            return found, None
    return [], None


def _proposal(step: Step, copy: HostCopy, ops: list[int], back: HostCopy | None) -> Proposal:
    host, cast = step.trace.host, _cast(step, copy)
    rows, size = step.below(cast), copy.bytes
    if len(cast):  # the reduction reads what the cast read
        read = step.tensor(int(host.nearest_op(step.trace.gpu.launch[rows[:1]])[0]), 1)
        size = min(size, (read or copy.tensor).bytes or size)
    away = [back] if back else []
    calls = np.array([*ops, *cast.tolist(), *(each.op for each in away)])
    # after the last op the host frees what was copied
    last = int(host.end[ops[-1]])
    then = host.start[step.inside & (host.is_op | host.is_call) & (host.start >= last)]
    most = last + int(copy.bytes / FREE_RATE * 1e9)
    freed = last, min(int(then.min(initial=step.span.end_ns)), most)
    removed = (*step.with_gaps(calls, COLD_NS), freed)
    gone = frozenset([*rows.tolist(), *(each.row for each in away)])
    free = step.waits_below([copy.op, back.op]) if back else frozenset[int]()
    held = sum(end - start for start, end in removed)
    left = min(len(ops) * CALL_NS / max(held, 1), 1.0)
    # the call has little to move out of the driver's buffer then
    quick = ((step.stretches(step.calls_below([copy.op]).tolist()), 0.0),)
    # the host times before the copy
    began = step.graph.began[step.graph.began <= host.end[copy.op]].tolist()
    before = list(zip([step.span.start_ns, *began], began, strict=False)) if held > LONG_NS else []

    def changed(shares: tuple[float, float]) -> GraphChange:
        speed, warm = shares
        ns = len(ops) * max(step.move_ns(size) / speed, KERNEL_NS) + COPY_NS
        sooner = tuple((round(start + warm * (end - start)), end) for start, end in before)
        return GraphChange(removed + sooner, left, {copy.row: ns}, gone, free, quick)

    name = step.name(ops[-1]).removeprefix("aten::").removeprefix("linalg_")
    order = f"call {name}() on the GPU, {'without' if back else 'before'} .cpu()"
    why = f"{name} runs on the CPU after a copy of {bytes_text(copy.bytes)} to the host"
    changes = of_each(changed, ((SPEED, WARM), (1.0, WARM / 2), (SPEED / 2, 1.0)))
    return Proposal(order, why, *changes, events=(*step.events([copy.row]), *ops))


def _cast(step: Step, copy: HostCopy) -> Ints:
    """The op before the copy, where it makes the copied tensor from one of another type."""
    host = step.trace.host
    before = step.named({"aten::to"}) & (host.end <= host.start[copy.op])
    last = step.outermost(before)[-1:]
    rows = step.below(last)
    for made in host.nearest_op(step.trace.gpu.launch[rows[-1:]]).tolist():
        target, source = step.tensor(made), step.tensor(made, 1)
        same = target and source and (target.dims, target.type) == copy.key
        if same and source and source.type != copy.tensor.type:
            return last
    return last[:0]
