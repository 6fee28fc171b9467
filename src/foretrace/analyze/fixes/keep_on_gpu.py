"""Keep the weights on the GPU.

What it looks for: large tensors that each step copies from the host, and that a matmul or a
convolution then takes as its weight.

What must hold: the tensor has the shape and type of the weight, not that of the input, and every
step copies as many of them. All of them fit into the GPU's memory.

What changes: the copies go, with the host time of their calls and the waits in them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._copies import HostCopy, host_copies, waits_below, with_gaps
from foretrace.analyze.fixes._step import Step
from foretrace.base.arrays import Ints
from foretrace.base.units import bytes_text, plural
from foretrace.model.costs import Tensor
from foretrace.model.replay import Change

# Ops that take a weight: the places of their input and of their weight.
WEIGHTS = {
    "aten::linear": (0, 1),
    "aten::matmul": (0, 1),
    "aten::mm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::conv1d": (0, 1),
    "aten::conv2d": (0, 1),
    "aten::conv3d": (0, 1),
    "aten::convolution": (0, 1),
}
ROOM = 0.6  # of the GPU's memory that weights may take


def _find(step: Step) -> Iterator[Proposal]:
    taken = weights(step)
    copies = [each for each in host_copies(step, "HtoD") if each.key in taken]
    size = sum(each.bytes for each in copies)
    if not copies or not _in_every_step(step, copies) or size > _room(step):
        return
    events = np.unique([each.op for each in copies])
    nodes = step.backward(events)
    rows = step.distinct_rows([step.below(events), step.below(nodes)])
    change = Change(
        with_gaps(step, np.concatenate((events, nodes))),
        gone=frozenset(rows.tolist()),
        unwaited=waits_below(step, events),
    )
    what = plural(len(copies), "weight")
    yield Proposal(
        "keep the weights on the GPU (model.to('cuda') once)",
        f"each step copies {what} from the host ({bytes_text(size)})",
        change,
        risk=f"{bytes_text(size)} of GPU memory",
        events=step.events(rows),
    )


def weights(step: Step) -> set[tuple[tuple[int, ...], str]]:
    """Shapes and types of weights; a shape that an input has too is not certain to be one."""
    found, inputs = set(), set()
    for event in step.ops(*WEIGHTS).tolist():
        call, (data, weight) = step.call(event), WEIGHTS[step.name(event)]
        taken, given = (call.tensor(at) if call else None for at in (weight, data))
        if taken and given and len(taken.dims) != 1:
            found |= _either_way(taken)
            inputs |= _either_way(given)
    return found - inputs


def _either_way(tensor: Tensor) -> set[tuple[tuple[int, ...], str]]:
    """A tensor's shape, and that of its transpose where it has two dimensions."""
    found = {(tensor.dims, tensor.type)}
    return found | {(tensor.dims[::-1], tensor.type)} if len(tensor.dims) == 2 else found


def _in_every_step(step: Step, copies: list[HostCopy]) -> bool:
    """Whether each step makes as many copies of these sizes: nothing is loaded just once."""
    gpu, spans = step.trace.gpu, step.trace.spans
    rows: Ints = np.flatnonzero(gpu.is_memcpy & np.isin(gpu.bytes, [each.bytes for each in copies]))
    steps = [span for span in spans.steps if len(span.work)]
    counts = np.bincount(np.maximum(spans.step_of_work()[rows], -1) + 1, minlength=1)[1:]
    worked = [int(counts[each.index]) if each.index < len(counts) else 0 for each in steps]
    return len(worked) < 2 or min(worked) >= len(copies)


def _room(step: Step) -> float:
    memory = step.device.memory_bytes if step.device else None
    return ROOM * memory if memory else float("inf")


FIX = Fix("keep_on_gpu", "Keep the weights on the GPU", _find, ("gpu", "shapes"))
