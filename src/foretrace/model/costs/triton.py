"""Compiled Triton kernels, from the arguments that Inductor's launcher records: each tensor
argument counted once.

The record does not say which arguments are inputs, outputs or both. An argument that is read and
written in place moves twice what is counted. Where the name says gelu or silu and mul and there are
two tensors, the kernel multiplies one by the activation of the other and writes the product into
one of them: both are read and one is written, 151 MB of the MLP's, as the counters of an H200
confirm (`docs/counters.md`). That is an estimate: the mul may be by a number. A kernel reaches at
most one element of an argument for each point of its grid, whose sizes follow the tensors among the
arguments: a slice of a larger buffer counts at the size of the slice. FLOP are not known.

The count is a lower bound where every argument covers the grid or one of its sizes, as a pointwise
kernel and the rows and weights of a reduction do. Elsewhere it is an estimate: an argument may be
used in part, and so may a table whose rows or elements an index picks (an embedding, the loss of
the right class). A matmul from a template (`triton_tem_fused_addmm_t_0`) writes its last
argument, [M, N]; where two others are [M, K] and [K, N] or [N, K], that is 2*M*N*K FLOP. A kernel
whose sizes are not recorded has no cost, and neither has one that a
person wrote: it may take a cache or a table of which it uses little.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from foretrace.base.patterns import regex
from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, at_least, estimate, unknown
from foretrace.schema.traffic import Certainty

IN_PART = "the kernel may use its arguments in part"
NOTE = "each tensor argument once; one that is updated in place moves twice that"
_PICKING = regex(r"triton_(?:poi|per|red)_fused_.*(?:embedding|gather|index|nll_loss|scatter)")
GATED = "an activation times a tensor by its name: reads both arguments, writes one"
_GATED = regex(r"triton_poi_fused_(?!.*backward)(?=.*(?:gelu|silu))(?=.*mul)")
# How many sizes a kernel has at least: `xnumel`, and `r0_numel` where it reduces.
_FEWEST = {"poi": 1, "per": 2, "red": 2}


def _fused(call: OpCall) -> Cost | None:
    tensors = call.every_tensor()
    sizes = _sizes(call, {tensor.stored for tensor in tensors})
    if not sizes:
        return unknown(IN_PART)
    points = math.prod(sizes)
    reached = [Tensor((min(tensor.stored, points),), tensor.type) for tensor in tensors]
    found = estimate(reached, NOTE)
    if found and len(tensors) == 2 and all(each.stored == points for each in tensors):
        read = found.touched if _GATED.match(call.name) else None
        if read:
            return Cost(None, read, read // 2, GATED, Certainty.ESTIMATE, least=read)
    covered = all(tensor.stored in {points, *sizes} for tensor in tensors)
    if found is None or not covered or _PICKING.match(call.name):
        return found
    return replace(found, certainty=Certainty.AT_LEAST)


def _sizes(call: OpCall, stored: set[int]) -> tuple[int, ...]:
    """The sizes of the kernel's grid (`xnumel`, `r0_numel`), which come last; () if unknown.

    Other numbers may precede them. The last ones whose matmul is the size of a tensor are the
    sizes; where no matmul is, all numbers are if there are no more than a kernel has at least.
    """
    fewest = _FEWEST.get(call.name.split("_")[1], 0)
    found = [call.integer(place) for place, kind in enumerate(call.types) if kind == "Scalar"]
    numbers = tuple(number or 0 for number in found)
    for count in range(len(numbers), fewest - 1 if fewest else len(numbers), -1):
        if math.prod(numbers[-count:]) in stored - {0}:
            return numbers[-count:]
    return numbers if 0 < len(numbers) <= fewest and all(size > 0 for size in numbers) else ()


def _template(call: OpCall) -> Cost | None:
    tensors = call.every_tensor()
    *given, out = tensors or (None,)
    if out is None or len(out.dims) != 2 or "mm" not in call.name:
        return unknown(IN_PART)
    rows, columns = out.dims
    sizes = [tensor.dims for tensor in given if tensor and len(tensor.dims) == 2]
    depths = {
        left[1]
        for at, left in enumerate(sizes)
        for right in sizes[:at] + sizes[at + 1 :]
        if left[0] == rows and right in ((left[1], columns), (columns, left[1]))
    }
    if len(depths) != 1:
        return unknown(IN_PART)
    return at_least(given, [out], NOTE, 2 * out.elements * depths.pop())


TRITON = CostKind({"triton_*": _fused, "triton_tem_*": _template})

KINDS = (TRITON,)
