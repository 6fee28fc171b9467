"""Kernels that follow one another: tested once per distinct pair of cases, then found in all
launches at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from foretrace.model.intervals import Ints
from foretrace.model.order import Order


def following(order: Order, distance: int, test: Callable[[int, int], bool]) -> Ints:
    """Places in `order` of launches whose case, with that of the launch `distance` before, passes
    the test.

    Both lie on one stream and in one step, and both count.
    """
    size = len(order.row)
    if size <= distance:
        return np.empty(0, np.int64)
    left, right = slice(0, size - distance), slice(distance, size)
    together = (
        (order.lane[left] == order.lane[right])
        & (order.step[left] == order.step[right])
        & order.counts[right]
    )
    base = len(order.cases)
    codes = order.case[left] * base + order.case[right]
    distinct, inverse = np.unique(codes, return_inverse=True)
    passes = np.array([test(code // base, code % base) for code in distinct.tolist()], bool)
    return np.flatnonzero(together & passes[inverse.reshape(-1)]) + distance
