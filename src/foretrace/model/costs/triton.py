"""Compiled Triton kernels, from the arguments that Inductor's launcher records: each tensor
argument counted once.

The record does not say which arguments are inputs, outputs or both, nor which part of each is
touched, so this is an estimate. An argument that is read and written in place moves twice what is
counted (a fused gelu and mul that reuses its input's buffer moves 151 MB, of which 101 MB are
counted); one that is used in part moves less. FLOP are not known. A kernel that picks rows or
elements by an index (an embedding, the loss of the right class) reaches at most one element of a
table for each point of its grid, whose sizes follow the tensors among the arguments.
"""

from __future__ import annotations

import math
import re

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._cost import Cost, CostKind, estimate

NOTE = "each tensor argument once; an argument updated in place moves twice that"
PICKING = r"triton_(?:poi|per|red)_fused_.*(?:embedding|gather|index|nll_loss)"


def _fused(call: OpCall) -> Cost | None:
    tensors = call.every_tensor()
    points = _points(call) if re.match(PICKING, call.name) else 0
    if points > 0:
        tensors = tuple(Tensor((min(tensor.stored, points),), tensor.type) for tensor in tensors)
    return estimate(tensors, NOTE)


def _points(call: OpCall) -> int:
    """The product of the kernel's sizes (`xnumel`, `r0_numel`); 0 if unknown."""
    sizes = [call.integer(place) for place, kind in enumerate(call.types) if kind == "Scalar"]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if sizes and len(known) == len(sizes) else 0


KIND = CostKind({"triton_*": _fused})
