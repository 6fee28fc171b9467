"""Fused optimizer steps: parameters, gradients and states read once, parameters and states written
once.

The profiler records neither the sizes of lists beyond 30 tensors nor their element type (see
`foreach`), so most real models leave these unknown. Of each kernel the chunks count that are whole
for certain: a block has one chunk of every list. FLOP per parameter depends on the options of the
optimizer and is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from foretrace.model.costs._call import OpCall, Tensor, total
from foretrace.model.costs._cost import UNSIZED, Cost, CostKind, Launch, Price, moved_lists
from foretrace.model.costs._names import CHUNK, after, chunk_note, whole_chunks
from foretrace.schema.cost import Certainty

# `FusedAdamMathFunctor<T, lists, ...>`: parameters, gradients and states, all of one type.
_FUNCTOR = re.compile(r"Fused\w{1,60}?MathFunctor<([\w: ]{1,60}), (\d{1,9})")


def _step(written: tuple[int, ...], read_only: tuple[int, ...]) -> Price:
    """Places of the lists that are updated in place, and of gradients and step counts."""

    def price(call: OpCall) -> Cost:
        if call.tensors(0) is None:
            return UNSIZED
        updated = [tensor for place in written for tensor in call.tensors(place) or ()]
        others = [tensor for place in read_only for tensor in call.tensors(place) or ()]
        return moved_lists(call, [*updated, *others], updated)

    return price


def _share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """Chunks that are whole. Gradients are written too if the call has a scale for them."""
    found = after(kernel.name, "multi_tensor_apply_kernel<", _FUNCTOR)
    if found is None:
        return None
    lists = int(found[2])
    chunks = whole_chunks(kernel, kernels, lists)
    each, note = total([Tensor((chunks, CHUNK), found[1])]), chunk_note(kernel, chunks)
    if not each:
        return Cost(None, None, None, note)
    writes = lists if any(call.arguments()) else lists - 1
    return Cost(None, lists * each, writes * each, note, Certainty.AT_LEAST)


# (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, ...); without amsgrad the
# fifth list is empty.
_ADAM = _step(written=(0, 2, 3, 4), read_only=(1, 5))
_PRICES = {
    "aten::_fused_adam_": _ADAM,
    "aten::_fused_adamw_": _ADAM,
    "aten::_fused_sgd_": _step(written=(0, 2), read_only=(1,)),
    "aten::_fused_adagrad_": _step(written=(0, 2), read_only=(1, 3)),
}

KIND = CostKind(_PRICES, dict.fromkeys(_PRICES, _share))
