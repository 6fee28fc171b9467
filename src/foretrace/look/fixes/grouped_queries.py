"""Keys and values that are not repeated for grouped queries.

What it looks for: copies of an expanded tensor (a dimension of stride 0: `repeat_interleave`, or
`expand` and `reshape`) with as many elements as the keys or values of the next
`scaled_dot_product_attention`.

What must hold: the attention runs in a kernel that takes fewer heads of keys than of queries
(Flash, cuDNN): so 16-bit types, and not the memory-efficient kernel.

What changes: the copies are gone, forward and backward, with their host time.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._step import Proposal, Proposals, Step, fix, shown
from foretrace.work.costs import OpCall, Tensor

ATTENTION = "aten::scaled_dot_product_attention"
FITTING = ("aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention")
REACH = 16  # ops between the copy and the attention
NARROW = frozenset({"c10::BFloat16", "c10::Half"})


@fix("Keys and values without repeats", "gpu shapes")
def _find(step: Step) -> Proposals:
    repeats = step.rows_where(lambda case: expanded(case.call) is not None)
    made = {
        event: tensor
        for row, event in zip(repeats.tolist(), step.owner(repeats).tolist(), strict=True)
        if event >= 0 and (case := step.case(row)) and (tensor := expanded(case.call))
    }
    found = set()
    calls = step.trace.host.nearest(step.ops(*FITTING), step.named([ATTENTION]))
    for call in {int(at) for at in calls if at >= 0}:
        sizes = {each.elements for at in (1, 2) if (each := step.tensor(call, at))}
        near = [op for op in step.near(call, before=REACH) if op in made]
        found |= {op for op in near if made[op].elements in sizes}
    events = np.array(sorted(found), np.int64)
    if not len(events):
        return
    change = step.without(np.concatenate((events, step.backward(events))))
    copies = plural(len(events), "copy", "copies")
    why = f"{copies} per step of keys and values repeated for groups of queries"
    order = "pass enable_gqa=True to SDPA instead of repeating k and v"
    yield Proposal(order, why, change, events=shown(events))


def expanded(call: OpCall | None) -> Tensor | None:
    """The source of a copy that writes a tensor repeated along a dimension in the middle."""
    source = call.tensor(1) if call and call.name == "aten::copy_" else None
    if source is None or not source.strides or source.type not in NARROW or len(source.dims) < 5:
        return None
    pairs = list(zip(source.dims, source.strides, strict=False))[1:-1]
    return source if any(stride == 0 and size > 1 for size, stride in pairs) else None
