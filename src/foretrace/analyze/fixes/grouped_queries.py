"""Keys and values that are not repeated for grouped queries.

What it looks for: copies of an expanded tensor (a dimension of stride 0: `repeat_interleave`, or
`expand` and `reshape`) with as many elements as the keys or values of the next
`scaled_dot_product_attention`.

What must hold: the attention runs in a kernel that takes fewer heads of keys than of queries
(Flash, cuDNN): so 16-bit types, and not the memory-efficient kernel.

What changes: the copies are gone, forward and backward, with their host time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import aten_above, rows_where
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import plural
from foretrace.model.costs import OpCall, Tensor

ATTENTION = "aten::scaled_dot_product_attention"
FITTING = ("aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention")
REACH = 16  # ops between the copy and the attention
NARROW = frozenset({"c10::BFloat16", "c10::Half"})


def _find(step: Step) -> Iterator[Proposal]:
    events = np.array(sorted(_repeats(step)), np.int64)
    if not len(events):
        return
    change = step.without(np.concatenate((events, step.backward(events))))
    copies = plural(len(events), "copy", "copies")
    why = f"{copies} per step of keys and values repeated for groups of queries"
    order = "pass enable_gqa=True to SDPA instead of repeating k and v"
    yield Proposal(order, why, change, events=tuple(events[:50].tolist()))


def _repeats(step: Step) -> set[int]:
    """The outermost ops that repeat keys or values."""
    copies = rows_where(step, lambda case: expanded(case.call) is not None)
    owner = aten_above(step, step.trace.gpu.launch[copies]).tolist()
    made: dict[int, Tensor] = {}
    for row, event in zip(copies.tolist(), owner, strict=True):
        tensor = expanded(case.call) if (case := step.case(row)) else None
        if tensor and event >= 0:
            made[event] = tensor
    return {each for call in _attentions(step) for each in _before(step, call, made)}


def expanded(call: OpCall | None) -> Tensor | None:
    """The source of a copy that writes a tensor repeated along a dimension in the middle."""
    source = call.tensor(1) if call and call.name == "aten::copy_" else None
    if source is None or not source.strides or source.type not in NARROW or len(source.dims) < 5:
        return None
    pairs = list(zip(source.dims, source.strides, strict=False))[1:-1]
    return source if any(stride == 0 and size > 1 for size, stride in pairs) else None


def _attentions(step: Step) -> list[int]:
    """Calls of attention whose kernel takes grouped queries."""
    fitting, host = step.ops(*FITTING), step.trace.host
    chosen = step.named([ATTENTION])
    return sorted({int(at) for at in host.nearest(fitting, chosen) if at >= 0})


def _before(step: Step, event: int, made: dict[int, Tensor]) -> Iterator[int]:
    """Those of the repeats that this attention reads."""
    sizes = {each.elements for at in (1, 2) if (each := step.tensor(event, at))}
    for op in step.near(event, before=REACH):
        if op in made and made[op].elements in sizes:
            yield op


FIX = Fix("grouped_queries", "Keys and values without repeats", _find, ("gpu", "shapes"))
