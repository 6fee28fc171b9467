"""Fused optimizer steps: parameters, gradients and states read once, parameters and states written
once.

The profiler records neither the sizes of lists beyond 30 tensors nor their element type (see
`foreach`), so most real models leave these unknown; then each kernel is bounded by its blocks, one
chunk of every list each. FLOP per parameter depends on the options of the optimizer and is not
stated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from foretrace.model.costs._call import (
    Cost,
    Kind,
    Launch,
    OpCall,
    Price,
    Tensor,
    moved,
    total,
    unknown,
)
from foretrace.model.costs._lists import CHUNK, NO_SIZES, NO_TYPE
from foretrace.model.costs._names import after

# `FusedAdamMathFunctor<T, lists, ...>`: parameters, gradients and states, all of one type.
_FUNCTOR = re.compile(r"Fused\w{1,60}?MathFunctor<([\w: ]{1,60}), (\d{1,9})")


def _step(written: tuple[int, ...], read_only: tuple[int, ...]) -> Price:
    """`written`: places of lists that are updated in place; `read_only`: gradients and step counts."""

    def price(call: OpCall) -> Cost | None:
        lists = {place: call.tensors(place) for place in (*written, *read_only)}
        if lists[0] is None:
            return unknown(NO_SIZES)
        updated = [tensor for place in written for tensor in lists[place] or ()]
        others = [tensor for place in read_only for tensor in lists[place] or ()]
        return moved([*updated, *others], updated, note="" if call.list_type else NO_TYPE)

    return price


def _share(call: OpCall, kernel: Launch, kernels: Sequence[Launch]) -> Cost | None:
    """At most whole chunks. Gradients are only read, unless a scale for them was given: then they
    are written too.
    """
    found = after(kernel.name, "multi_tensor_apply_kernel<", _FUNCTOR)
    if found is None or kernel.blocks <= 0:
        return None
    scaled = any(call.tensor(place) for place in range(len(call.types)))
    chunk, lists = total([Tensor((kernel.blocks, CHUNK), found[1])]), int(found[2])
    if chunk is None:
        return None
    note = f"at most: {kernel.blocks} whole chunks of {CHUNK:,} elements of {lists} lists"
    return Cost(None, lists * chunk, (lists if scaled else lists - 1) * chunk, note)


# (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, ...); an absent list (no
# amsgrad) is empty.
_ADAM = _step(written=(0, 2, 3, 4), read_only=(1, 5))

KIND = Kind(
    prices={
        "aten::_fused_adam_": _ADAM,
        "aten::_fused_adamw_": _ADAM,
        "aten::_fused_sgd_": _step(written=(0, 2), read_only=(1,)),
        "aten::_fused_adagrad_": _step(written=(0, 2), read_only=(1, 3)),
    },
    examples=(
        (
            OpCall(
                "aten::_fused_adamw_",
                [[[8, 4]], [[8, 4]], [[8, 4]], [[8, 4]], [], [[]]],
                ["TensorList"] * 6,
                list_type="float",
            ),
            Cost(None, 4 * (4 * 32 + 1), 4 * 3 * 32),
        ),
        (
            OpCall("aten::_fused_sgd_", [[], [], []], ["TensorList"] * 3),
            Cost(None, None, None, NO_SIZES),
        ),
    ),
    shares=dict.fromkeys(
        ("aten::_fused_adam_", "aten::_fused_adamw_", "aten::_fused_sgd_", "aten::_fused_adagrad_"),
        _share,
    ),
    split=(
        (
            OpCall("aten::_fused_adamw_", [[]] * 6, ["TensorList"] * 6),
            {
                Launch(
                    "multi_tensor_apply_kernel<TensorListMetadata<4>, "
                    "FusedAdamMathFunctor<c10::BFloat16, 4, (M)1, false>",
                    "optimizer",
                    320,
                ): Cost(
                    None,
                    4 * 320 * 131_072,
                    3 * 320 * 131_072,
                    "at most: 320 whole chunks of 65,536 elements of 4 lists",
                ),
            },
        ),
    ),
)
