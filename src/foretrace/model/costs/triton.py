"""Compiled Triton kernels, from the arguments that Inductor's launcher records: each tensor
argument counted once.

The record does not say which arguments are inputs, outputs or both. An argument that is read and
written in place moves twice what is counted: a fused gelu and mul that reuses its input's buffer
moves 151 MB, of which 101 MB are counted. A kernel reaches at most one element of an argument for
each point of its grid, whose sizes follow the tensors among the arguments: a slice of a larger
buffer counts at the size of the slice. FLOP are not known.

The count is a lower bound where every argument covers the grid or one of its sizes, as a pointwise
kernel and the rows and weights of a reduction do. Elsewhere it is an estimate: an argument may be
used in part, and so may a table whose rows or elements an index picks (an embedding, the loss of
the right class).
"""

from __future__ import annotations

import math
import re

from msgspec.structs import replace

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, estimate
from foretrace.schema.cost import Certainty

NOTE = "each tensor argument once; one that is updated in place moves twice that"
_PICKING = re.compile(r"triton_(?:poi|per|red)_fused_.*(?:embedding|gather|index|nll_loss|scatter)")
_INDUCTOR = re.compile(r"triton_(?:poi|per|red)_fused_")


def _fused(call: OpCall) -> Cost | None:
    tensors, sizes = call.every_tensor(), _sizes(call)
    if not sizes or not _INDUCTOR.match(call.name):
        return estimate(tensors, NOTE)
    points = math.prod(sizes)
    reached = [Tensor((min(tensor.stored, points),), tensor.type) for tensor in tensors]
    found = estimate(reached, NOTE)
    covered = all(tensor.stored in {points, *sizes} for tensor in tensors)
    if found is None or not covered or _PICKING.match(call.name):
        return found
    return replace(found, certainty=Certainty.AT_LEAST)


def _sizes(call: OpCall) -> list[int]:
    """The kernel's sizes (`xnumel`, `r0_numel`); none if one of them was not recorded."""
    sizes = [call.integer(place) for place, kind in enumerate(call.types) if kind == "Scalar"]
    known = [size for size in sizes if size is not None and size > 0]
    return known if len(known) == len(sizes) else []


KIND = CostKind({"triton_*": _fused})
