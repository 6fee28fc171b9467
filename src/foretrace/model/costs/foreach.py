"""Multi-tensor ops (`_foreach_*`): the element-by-element op of that name over lists, chunked into
several kernels.

Every list is read, the first is written (or a new one of its sizes); `zero` and `fill` read
nothing, `copy` reads the second list alone, `norm` and `max` write one value per tensor. One FLOP
per written element, none for copies and fills. Two things a trace does not say of lists: their
element type (taken from the kernel's name where the caller supplies `list_type`, else bytes are
unknown), and, beyond 30 tensors, their sizes.
"""

from __future__ import annotations

from foretrace.model.costs._call import Cost, Kind, OpCall, Tensor, moved, unknown
from foretrace.model.costs._lists import NO_SIZES, NO_TYPE, tensor_lists


def _foreach(call: OpCall) -> Cost | None:
    op = call.name.removeprefix("aten::_foreach_").rstrip("_")
    lists = tensor_lists(call)
    if lists is None:
        return unknown(NO_SIZES) if "TensorList" in call.types else None
    reads = {"zero": [], "fill": [], "copy": lists[1:2]}.get(op, lists)
    first = [Tensor(tensor.dims, tensor.type) for tensor in lists[0]]
    writes = [Tensor((), tensor.type) for tensor in first] if op in ("norm", "max") else first
    counted = lists[0] if op in ("norm", "max") else first
    flops = 0 if op in ("zero", "fill", "copy") else sum(tensor.elements for tensor in counted)
    note = "" if call.list_type else NO_TYPE
    return moved((tensor for each in reads for tensor in each), writes, flops, note)


def _unscale(call: OpCall) -> Cost | None:
    """_amp_foreach_non_finite_check_and_unscale_ (list, found_inf, inv_scale): read, scaled and
    written in place.
    """
    lists = tensor_lists(call)
    if lists is None:
        return unknown(NO_SIZES)
    flops = sum(tensor.elements for tensor in lists[0])
    return moved(lists[0], lists[0], flops, "" if call.list_type else NO_TYPE)


KIND = Kind(
    prices={
        "aten::_foreach_*": _foreach,
        "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale,
    },
    examples=(
        (
            OpCall(
                "aten::_foreach_add_",
                [[[128, 128], [128]], [[128, 128], [128]], []],
                ["TensorList", "TensorList", "Scalar"],
                concrete=["", "", "-0.001"],
                list_type="float",
            ),
            Cost(16_512, 2 * 4 * 16_512, 4 * 16_512),
        ),
        (
            OpCall(
                "aten::_foreach_copy_",
                [[[32]] * 4, [[32]] * 4, []],
                ["TensorList", "TensorList", "Scalar"],
                list_type="long int",
            ),
            Cost(0, 1024, 1024),
        ),
        (OpCall("aten::_foreach_sqrt", [[]], ["TensorList"]), Cost(None, None, None, NO_SIZES)),
        (OpCall("aten::_foreach_sqrt", [[[4], [5]]], ["TensorList"]), Cost(9, None, None, NO_TYPE)),
    ),
)
