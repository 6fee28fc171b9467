"""Lists of tensors, of which a trace says less than of single ones: what is there, and where the
rest may be found.
"""

from __future__ import annotations

import re

from foretrace.model.costs._call import OpCall, Tensor
from foretrace.model.costs._types import SIZES

NO_SIZES = "the profiler records no sizes for lists of more than 30 tensors"
NO_TYPE = "the element type of a tensor list is not recorded"

# ATen's multi-tensor kernels hand each block one chunk of this many elements (kChunkSize in
# MultiTensorApply.cuh).
CHUNK = 65_536

# `CatArrayBatchedCopy<...OpaqueType<2u>...>` moves elements of 2 bytes;
# `BinaryOpScalarFunctor<c10::BFloat16, ...>` and `CopyFunctor<float, ...>` are the functor of a
# multi-tensor kernel, typed by its elements.
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?l?>")
_TYPED = re.compile(r"(?:CatArrayBatchedCopy\w{0,60}|\wFunctor)<([A-Za-z_][\w: ]{0,60}?) ?[,>]")


def element_type(kernel_name: str) -> str:
    """The element type that a kernel over a list of tensors states in its name, or "": for
    `OpCall.list_type`.
    """
    opaque = _OPAQUE.search(kernel_name)
    if opaque:
        return f"OpaqueType<{opaque[1]}>"
    typed = _TYPED.search(kernel_name)
    return typed[1] if typed and typed[1] in SIZES else ""


def tensor_lists(call: OpCall) -> list[tuple[Tensor, ...]] | None:
    """All lists of the call in order; None if it has none or the sizes of one are missing."""
    places = [index for index, kind in enumerate(call.types) if kind == "TensorList"]
    lists = [call.tensors(index) for index in places]
    found = [each for each in lists if each is not None]
    return found if found and len(found) == len(lists) else None
