"""What one kernel in place of several must still move: operands from outside, results for outside.

A trace records the sizes of operands, not which tensor is which. Where two tensors may be one, they
count as one, so that the traffic is the least there can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from foretrace.analyze.rules._common import bare
from foretrace.base.units import bytes_text
from foretrace.model.costs import Tensor
from foretrace.model.operands import made, operands
from foretrace.model.order import Case


class Traffic(Struct, frozen=True):
    """What one kernel for a group must move, and the largest tensor that it need not."""

    least: int
    largest: int
    name: str


def traffic_of(cases: Sequence[Case], matmuls: Counter[int]) -> Traffic:
    """`matmuls` counts the matmuls that wrote a tensor of some size before the group.

    Operands of one shape from outside count as one tensor, or as many as matmuls made of it. A
    slice counts as part of the largest.
    """
    inside: Counter[int] = Counter()
    outside: Counter[tuple[Any, ...]] = Counter()
    read: dict[int, Tensor] = {}  # what is made and read inside, by size
    for case in cases:
        taken: Counter[int] = Counter()
        for tensor, size in operands(case):
            if inside[size] > taken[size]:
                taken[size] += 1
                read[size] = tensor
            else:
                outside[tensor.dims, tensor.type, _is_slice(tensor), size] += 1
        inside[made(case)] += 1
    largest = max((size for *_, size in outside), default=0)
    least = sum(
        size * min(times, matmuls[size] or 1)
        for (*_, part, size), times in outside.items()
        if size == largest or not part
    )
    final = sum(case.bytes_written or 0 for case in cases if made(case) not in read)
    size = max(read, default=0)
    maker = next((bare(case.op) for case in cases if made(case) == size), "")
    name = f"The {bytes_text(size)} intermediate that {maker} makes"
    if (shown := read.get(size)) and shown.elements == shown.stored:
        name += f" ({shown.text})"
    return Traffic(least + max(final, cases[-1].bytes_written or 0), size, name)


def _is_slice(tensor: Tensor) -> bool:
    """Whether it may be part of a tensor that is read anyway: half of a head, an item of a list."""
    if not tensor.type:
        return True
    pairs = zip(tensor.dims, tensor.strides or (), strict=False)
    return 1 + sum((size - 1) * abs(stride) for size, stride in pairs) > tensor.stored
