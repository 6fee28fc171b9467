"""Reduce on the GPU, and copy the result.

What it looks for: a large tensor that is copied to the host, and there reduced by a CPU op
(`argmax`, `topk`, `mean`): an op that launches nothing and takes the tensor's shape and type.

What must hold: the op follows the copy in the same step, and its result is smaller than its input.

What changes: the reduction becomes kernels that read the tensor at the memory's speed, and the copy
moves little. A cast to float32 right before the copy goes too: the GPU's reductions take 16-bit
types and add in float32. CPU ops of many milliseconds leave cold caches behind: without them the
host's other calls take less time (0.15 of it on an H200's host).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._copies import HostCopy, host_copies, with_gaps
from foretrace.analyze.fixes._step import Step, Stretches
from foretrace.base.arrays import Ints
from foretrace.base.units import bytes_text
from foretrace.model.replay import Change

REDUCING = """
argmax argmin max min amax amin aminmax sum mean nansum std var std_mean var_mean norm
linalg_vector_norm topk any all count_nonzero median nanmedian mode logsumexp multinomial bincount
histc nonzero
"""
# Ops on the way to the reduction, of the same size as the tensor.
BETWEEN = "softmax _softmax log_softmax _log_softmax exp sigmoid eq ne gt lt ge le sort argsort to"
OPS = {f"aten::{name}" for name in REDUCING.split()}
CHAIN = OPS | {f"aten::{name}" for name in BETWEEN.split()}
KERNEL_NS, COPY_NS, CALL_NS = 4_000.0, 2_000.0, 30_000.0  # least times of new GPU and host work
COLD_NS = 100_000  # of Python code before an op, when the caches are cold
FREE_RATE = 15e9  # bytes per second at which a host gives memory back, at least
SPEED = 0.4  # of the memory's bandwidth that a reduction reaches
LONG_NS = 5_000_000  # CPU ops after which the caches are cold
WARM = 0.3  # of the host's other times that remain then


def _find(step: Step) -> Iterator[Proposal]:
    if step.device is None:
        return
    for copy in host_copies(step, "DtoH"):
        ops = _on_cpu(step, copy)
        if ops and step.name(ops[-1]) in OPS:
            yield _proposal(step, copy, ops)


def _on_cpu(step: Step, copy: HostCopy) -> list[int]:
    """The CPU ops that take the copied tensor, up to the one that reduces it."""
    host, found = step.trace.host, []
    after = step.named(CHAIN) & host.is_op & (host.start >= host.end[copy.op])
    for event in step.outermost(after).tolist():
        call = step.call(event)
        tensor = call.tensor(0) if call else None
        if tensor and (tensor.dims, tensor.type) == copy.key and not _launches(step, event):
            found.append(event)
            if step.name(event) in OPS:
                break
    return found


def _launches(step: Step, event: int) -> bool:
    return bool(len(step.calls_below(np.array([event]))))


def _proposal(step: Step, copy: HostCopy, ops: list[int]) -> Proposal:
    cast = _cast(step, copy)
    rows = step.below(cast)
    size = copy.bytes
    if len(cast):  # the reduction reads what the cast read
        call = step.call(int(step.trace.host.nearest_op(step.trace.gpu.launch[rows[:1]])[0]))
        size = min(size, (call.tensor(1) or copy.tensor).bytes or size) if call else size
    freed = _freeing(step, copy, ops[-1])
    removed = (*with_gaps(step, np.array([*ops, *cast.tolist()]), COLD_NS), freed)
    held = sum(end - start for start, end in removed)
    left = min(len(ops) * CALL_NS / max(held, 1), 1.0)

    def changed(speed: float, warm: float) -> Change:
        ns = len(ops) * max(step.move_ns(size) / speed, KERNEL_NS) + COPY_NS
        sooner = _warmed(step, copy, warm) if held > LONG_NS else ()
        return Change(removed + sooner, left, {copy.row: ns}, frozenset(rows.tolist()))

    name = step.name(ops[-1]).removeprefix("aten::").removeprefix("linalg_")
    return Proposal(
        f"{name} on the GPU, then copy its result (x.{name}(...).cpu())",
        f"{name} runs on the CPU after a copy of {bytes_text(copy.bytes)} to the host",
        changed(SPEED, WARM),
        changed(1.0, WARM / 2),
        changed(SPEED / 2, 1.0),
        events=(*step.events(np.array([copy.row])), *ops),
    )


def _freeing(step: Step, copy: HostCopy, last: int) -> tuple[int, int]:
    """The time after the last op in which the host frees what was copied."""
    host, end = step.trace.host, int(step.trace.host.end[last])
    then = host.start[step.inside & (host.is_op | host.is_call) & (host.start >= end)]
    most = end + int(copy.bytes / FREE_RATE * 1e9)
    return end, min(int(then.min(initial=step.span.end_ns)), most)


def _warmed(step: Step, copy: HostCopy, left: float) -> Stretches:
    """Of the host times before the copy all but this share."""
    began = step.graph.began[step.graph.began <= step.trace.host.end[copy.op]].tolist()
    marks = zip([step.span.start_ns, *began], began, strict=False)
    return tuple((round(start + left * (end - start)), end) for start, end in marks)


def _cast(step: Step, copy: HostCopy) -> Ints:
    """The op before the copy, where it makes the copied tensor from one of another type."""
    host = step.trace.host
    before = step.named({"aten::to"}) & (host.end <= host.start[copy.op])
    last = step.outermost(before)[-1:]
    rows = step.below(last)
    made = host.nearest_op(step.trace.gpu.launch[rows[-1:]]).tolist() if len(rows) else []
    call = step.call(made[0]) if made else None
    target, source = (call.tensor(0), call.tensor(1)) if call else (None, None)
    same = target and source and (target.dims, target.type) == copy.key
    return last if same and source and source.type != copy.tensor.type else last[:0]


FIX = Fix("reduce_on_gpu", "Reduce on the GPU, copy the result", _find, ("gpu", "shapes"))
