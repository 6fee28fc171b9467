"""Whether a kernel may come from an op, by their names alone.

Captures on NVIDIA's cards do not say which kernel a call launches. Then order and counts make the
join, and this is its check. A matmul's kernel under an op that computes none, or the loop of one
ATen op under another op, proves that the order is wrong. A helper (a fill, a copy, a sum of
partial results, a transpose) can be any op's. The grid of ATen's elementwise loops says how many
elements they have, and so which of two batch sizes was captured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import zip_longest

from foretrace.model.costs import OpCall
from foretrace.names import families
from foretrace.names.families import role_of_op

_MATMULS = frozenset({"gemm", "gemv", "conv", "attention"})
# what an op of these roles launches never multiplies matrices
_SIMPLE = frozenset({"pointwise", "copy", "softmax", "random"})
_HELPS = frozenset({"copy", "fill", "zero", "contiguous", "clone", "sum"})
# ops that run another op's loop
_ALIASES = {"sub": "add", "rsub": "add", "relu": "clamp_min", "clamp": "clamp_min"}
# elements of one thread in ATen's elementwise loops, by the vector width in the name
_WORK = {"<2": (4,), "<4": (4, 8), "<8": (8,), "<": (4,)}
_WORD = re.compile(r"\w+(?:::\w+)?")
_PREFIX = 200  # the loop's name stands at the front
_LOOP = re.compile(r"(?:vectorized|unrolled)_elementwise_kernel(<[248]?)")


def fits(kernel: str, chain: Sequence[str]) -> bool | None:
    """True: kernel and op say the same. False: they contradict each other. None: neither."""
    if not chain:
        return None
    found, roles = families.decode(kernel), [role_of_op(op) for op in chain]
    stated = _stated(str(found.get("op") or ""))
    if stated:
        called = {_stem(op) for op in chain}
        called |= {_ALIASES[op] for op in called & _ALIASES.keys()}
        if stated & called:
            return True
        own = chain[-1].startswith("aten::") and roles[-1] in _SIMPLE
        return False if own and not stated & _HELPS else None
    if found.role in _MATMULS:
        return True if _MATMULS & set(roles) else False if roles[-1] in _SIMPLE else None
    return True if found.role in roles and found.role != "other" else None


def _stated(text: str) -> set[str]:
    """`aten::fill_ / zero_` -> {fill, zero}; empty unless the name is that of one ATen op."""
    if not text.startswith("aten::"):
        return set()
    return {_stem(part) for part in _WORD.findall(text)}


def sizes_fit(kernel: str, grid: Sequence[int], block: Sequence[int], call: OpCall) -> bool | None:
    """Whether the grid of an elementwise loop is that of the op's sizes; None for other kernels."""
    loop = _LOOP.search(kernel[:_PREFIX])
    shapes = [tensor.dims for tensor in call.every_tensor() if tensor.dims]
    if not loop or not shapes or not grid or not block or role_of_op(call.name) != "pointwise":
        return None
    whole = map(max, zip_longest(*map(reversed, shapes), fillvalue=1))
    elements, blocks, threads = math.prod(whole), math.prod(grid), math.prod(block)
    return any(blocks == -(-elements // (threads * work)) for work in _WORK[loop[1]])


def _stem(op: str) -> str:
    return op.rpartition("::")[2].split(".")[0].strip("_").removesuffix("_out")
