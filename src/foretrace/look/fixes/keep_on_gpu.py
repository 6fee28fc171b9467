"""Keep the weights on the GPU, and what each step adds to.

What it looks for: large tensors that each step copies from the host, and that a matmul or a
convolution then takes as its weight. Tensors that each step copies to pageable host memory, where
an in-place CPU op adds them to one of their shape: a moving average of the weights.

What must hold: the tensor has the shape and type of a weight or its bias, not that of an input; a
shape that both have counts where a step copies three or more of it. An op that adds on the CPU
launches nothing and follows the copy on its thread. Every step copies as many. All of them fit into
the GPU's memory.

What changes: the copies go, with the host time of their calls and the waits in them. The CPU ops go
too, for one `_foreach` call on the GPU that reads both tensors and writes one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from foretrace.base.units import bytes_text, plural
from foretrace.look.fixes._host import HostCopy, host_copies, share, tops
from foretrace.look.fixes._step import Proposal, Proposals, Step, fix, shown
from foretrace.work.costs import Tensor

# Ops that take a weight: the places of their input, weight and bias.
WEIGHTS = {
    **dict.fromkeys(("aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d"), (0, 1, 2)),
    **dict.fromkeys(("aten::matmul", "aten::mm"), (0, 1, None)),
    "aten::addmm": (1, 2, 0),
    "aten::convolution": (0, 1, 2),
}
Kind = tuple[tuple[int, ...], str]  # a shape and a type
SURE = 3  # copies of a shape that inputs have too: no batch has so many parts
ROOM = 0.6  # of the GPU's memory that weights may take
NEAR = 3  # ops from a copy to the one that adds it
SPEED = 0.6  # of the memory's bandwidth that a `_foreach` call reaches


@fix("Keep the weights on the GPU", "gpu shapes")
def _find(step: Step) -> Proposals:
    yield from _loaded(step)
    found = list(_adding(step, list(host_copies(step, "DtoH", 1))))
    copies = [copy for copy, _ in found]
    if not _worth(step, copies):
        return
    size, last = sum(each.bytes for each in copies), copies[-1].row
    events = np.unique([at for copy, ops in found for at in (copy.op, *ops)])
    removed = step.with_gaps(events)
    change = replace(
        step.without(events, removed),
        left=share(step, removed, step.plain_ns),
        length={last: 3 * step.move_ns(size) / SPEED},
        gone=frozenset(each.row for each in copies if each.row != last),
    )
    name, held = step.name(found[-1][1][-1]).removeprefix("aten::"), bytes_text(size)
    order = "keep it on the GPU and update it there, without .cpu()"
    tensors = plural(len(copies), "tensor")
    why = f"each step copies {tensors} to the host ({held}) for {name} on the CPU"
    told = (*step.events([each.row for each in copies]), *shown(events))
    yield Proposal(order, why, change, risk=f"{held} of GPU memory", events=told)


def _loaded(step: Step) -> Proposals:
    copies = _copied(step)
    if not _worth(step, copies):
        return
    events = np.unique([each.op for each in copies])
    every = np.concatenate((events, step.backward(events)))
    order = "keep the weights on the GPU (model.to('cuda') once)"
    size = bytes_text(sum(each.bytes for each in copies))
    why = f"each step copies {plural(len(copies), 'weight')} from the host ({size})"
    change, told = step.without(every, step.with_gaps(every)), step.events(step.below(every))
    yield Proposal(order, why, change, risk=f"{size} of GPU memory", events=told)


def _worth(step: Step, copies: list[HostCopy]) -> bool:
    """Whether these copies are large together, fit into the GPU's memory and come in each step:
    nothing is loaded just once.
    """
    size = sum(each.bytes for each in copies)
    memory = (step.device.memory_bytes if step.device else None) or float("inf")
    gpu, spans = step.trace.gpu, step.trace.spans
    rows = np.flatnonzero(gpu.is_memcpy & np.isin(gpu.bytes, [each.bytes for each in copies]))
    counts = Counter(spans.step_of_work()[rows].tolist())
    worked = [counts[span.index] for span in spans.steps if len(span.work)]
    steady = len(worked) < 2 or min(worked) >= len(copies)
    return 65_536 <= size <= ROOM * memory and steady  # bytes of the copies together


def _adding(step: Step, copies: list[HostCopy]) -> Iterator[tuple[HostCopy, list[int]]]:
    """Copies that a CPU op adds in place to a tensor of their shape, each with this op at last, and
    with the ops before the copy that change the same tensor.
    """
    ops = tops(step)
    place = {op: at for at, op in enumerate(ops.tolist())}
    launching = set(step.callers(step.graph.calls).tolist())

    def changes(op: int, copy: HostCopy) -> bool:
        """Whether an op computes in place on a tensor of this shape."""
        name, first = step.name(op), step.tensor(op)
        in_place = name.startswith("aten::") and name.endswith("_") and name != "aten::copy_"
        return in_place and first is not None and first.dims == copy.tensor.dims

    for copy in copies:
        at = place.get(copy.op)
        if at is None or not copy.pageable:
            continue
        near = [*ops[max(at - NEAR, 0) : at].tolist(), *ops[at + 1 : at + 1 + NEAR].tolist()]
        mine = [op for op in near if op not in launching and changes(op, copy)]
        behind = [op for op in mine if place[op] > at]
        taken = [[each.dims for each in step.tensors(op)[1:2]] for op in behind]
        last = [op for op, dims in zip(behind, taken, strict=True) if dims == [copy.tensor.dims]]
        if last:
            yield copy, [*(op for op in mine if place[op] < at), last[0]]


def _copied(step: Step) -> list[HostCopy]:
    """Copies of weights, and those of their biases."""
    found: tuple[set[Kind], set[Kind], set[Kind]] = set(), set(), set()
    for event in step.ops(*WEIGHTS).tolist():
        data, weight, bias = WEIGHTS[step.name(event)]
        given, taken = step.tensor(event, data), step.tensor(event, weight)
        added = step.tensor(event, bias) if bias is not None else None
        if taken and given and len(taken.dims) > 1:
            found[0].update(_either_way(taken))
            found[1].update(_either_way(given))
            found[2].update(_either_way(added) if added and len(added.dims) == 1 else ())
    wanted, inputs, biases = found
    copies = list(host_copies(step, "HtoD", 1))
    count = Counter(each.key for each in copies)
    sure = {kind for kind in wanted if kind not in inputs or count[kind] >= SURE}
    if not any(each.key in sure for each in copies):
        return []
    return [each for each in copies if each.key in sure | (biases - inputs)]


def _either_way(tensor: Tensor) -> set[Kind]:
    """A tensor's shape, and that of its transpose where it has two dimensions."""
    found = {(tensor.dims, tensor.type)}
    return found | {(tensor.dims[::-1], tensor.type)} if len(tensor.dims) == 2 else found
