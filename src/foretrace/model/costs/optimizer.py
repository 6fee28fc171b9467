"""Fused optimizer steps: parameters, gradients and states read once, parameters and states written once.

The profiler records neither the sizes of lists beyond 30 tensors nor their element type (see `foreach`), so most real
models leave these unknown. FLOP per parameter depends on the options of the optimizer and is not stated.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, Price, moved, unknown
from foretrace.model.costs._lists import NO_SIZES, NO_TYPE


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


# (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, ...); an absent list (no amsgrad) is empty.
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
            OpCall("aten::_fused_adamw_", [[[8, 4]], [[8, 4]], [[8, 4]], [[8, 4]], [], [[]]], ["TensorList"] * 6,
                   list_type="float"),
            Cost(None, 4 * (4 * 32 + 1), 4 * 3 * 32),
        ),
        (OpCall("aten::_fused_sgd_", [[], [], []], ["TensorList"] * 3), Cost(None, None, None, NO_SIZES)),
    ),
)
