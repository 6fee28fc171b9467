"""Keep keys and values while a sequence grows.

What it looks for: on a CPU, without a backward pass, attention of a sequence with itself that has
one token more each time: 134, then 135, then 136. All tokens are computed again for the last one.

What must hold: queries and keys have the same length, at least 16, in at least three lengths that
follow each other. With a cache there is one query.

What changes: an op with the length of the sequence in its shapes works on the new token alone. Nine
tenths of that are expected, at worst half of its time: weights are read all the same.
"""

from __future__ import annotations

import numpy as np

from foretrace.look.fixes._cpu import CpuStep, dense
from foretrace.look.fixes._step import Proposals, fix
from foretrace.work.costs import OpCall

ATTENTION, SCORES = "aten::scaled_dot_product_attention", "aten::softmax"
SHORTEST, LENGTHS, EXPECTED, WORST = 16, 3, 0.9, 0.5


@fix("Keep keys and values while a sequence grows", steps="cpu")
def _find(step: CpuStep) -> Proposals:
    if step.nodes.is_node.any():
        return
    lengths = _lengths(step)
    if len(lengths) < LENGTHS or set(np.diff(lengths).tolist()) != {1}:
        return
    # the number of all tokens, or of those of a batch, is in a shape of an op
    sizes = {
        event: {size for each in dense(call) for size in each.dims[:-1] if size}
        for event, call in step.arguments.items()
    }
    events = [at for at, own in sizes.items() if any(s % n == 0 for s in own for n in lengths)]
    goes = 1 - 1 / lengths[-1]
    if events:
        order = "keep the keys and values of earlier tokens (a KV cache)"
        why = f"all {lengths[-1]} tokens are computed again for each new one"
        shares = (EXPECTED * goes, goes, WORST)
        yield step.proposal(order, why, events, shares, "holds for causal attention")


def _lengths(step: CpuStep) -> list[int]:
    """Each length of a sequence that attends to itself, in order; none where one does not."""
    host, found = step.trace.host, list[int]()
    events = np.flatnonzero(host.is_op & host.named(lambda name: name in (ATTENTION, SCORES)))
    for event in step.in_order(events).tolist():
        length = _itself(step.call(event))
        if length is not None and length < SHORTEST:
            return []
        found += [length] if length and found[-1:] != [length] else []
    return found


def _itself(call: OpCall) -> int | None:
    """The length of queries and keys, 0 where they differ; None where nothing attends."""
    query, key = call.tensor(0), call.tensor(1)
    if query is None or len(query.dims) < 3:
        return None
    first, second = query.dims[-2:]
    if call.name == ATTENTION:
        second = key.dims[-2] if key and len(key.dims) > 2 else 0
    return first if first == second else 0
