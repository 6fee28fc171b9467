"""Multi-tensor ops (`_foreach_*`): the elementwise op of that name over lists, in several kernels.

Every list is read, the first is written (or a new one of its sizes). `zero` and `fill` read
nothing, `copy` reads the second list alone, `norm` and `max` write one value per tensor. One FLOP
per element, none for copies and fills. A trace does not state the element type of lists (taken from
the kernel's name where the caller supplies `list_type`, else bytes are unknown) and, beyond 30
tensors, their sizes.
"""

from __future__ import annotations

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import UNSIZED, Cost, CostKind, moved_lists


def _foreach(call: OpCall) -> Cost | None:
    op = call.name.removeprefix("aten::_foreach_").rstrip("_")
    lists = call.tensor_lists()
    if lists is None:
        return UNSIZED if "TensorList" in call.types else None
    reads = {"zero": [], "fill": [], "copy": lists[1:2]}.get(op, lists)
    first = [tensor.dense() for tensor in lists[0]]
    writes = [Tensor((), tensor.type) for tensor in first] if op in ("norm", "max") else first
    flops = 0 if op in ("zero", "fill", "copy") else sum(tensor.elements for tensor in first)
    return moved_lists(call, (tensor for each in reads for tensor in each), writes, flops)


def _unscale(call: OpCall) -> Cost:
    """_amp_foreach_non_finite_check_and_unscale_ (list, found_inf, inv_scale): in place."""
    lists = call.tensor_lists()
    if lists is None:
        return UNSIZED
    return moved_lists(call, lists[0], lists[0], sum(tensor.elements for tensor in lists[0]))


KIND = CostKind(
    {"aten::_foreach_*": _foreach, "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale}
)
