"""The work of one group, by case: what its name and its limit are made from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Ints
from foretrace.model.order import Case
from foretrace.model.trace import Trace


class CaseTime(Struct, frozen=True):
    """How long the launches of one case took in a group."""

    case: Case
    ns: int
    launches: int


class GroupWork(Struct, frozen=True, dict=True):
    """Rows of `gpu` of one group; `cases` have the time of their kernels here, the most first."""

    trace: Trace
    name: str
    rows: Ints
    cases: list[CaseTime]

    @cached_property
    def ns(self) -> int:
        """The time of all rows."""
        return int(self.trace.gpu.length[self.rows].sum())

    @cached_property
    def calls(self) -> Ints:
        """Kernels in each call of the group in the forward pass, where calls are known."""
        grouped, kernels = self.trace.grouped, self.rows[self.trace.gpu.is_kernel[self.rows]]
        forward = kernels[~grouped.backward[kernels]]
        call = grouped.call[forward]
        known = bool(len(call)) and bool((call >= 0).all())
        return np.unique(call, return_counts=True)[1] if known else np.zeros(0, np.int64)


def works(trace: Trace, rows: Ints) -> Iterator[GroupWork]:
    """The groups among these rows."""
    order, place = trace.order, np.full(len(trace.gpu), -1, np.int64)
    place[order.row] = order.case
    group = trace.grouped.group[rows]
    for number in np.unique(group).tolist():
        mine = rows[group == number]
        kernels = mine[place[mine] >= 0]
        numbers, at, count = np.unique(place[kernels], return_inverse=True, return_counts=True)
        time = np.bincount(at.reshape(-1), weights=trace.gpu.length[kernels])
        columns = zip(numbers.tolist(), time.tolist(), count.tolist(), strict=True)
        cases = [CaseTime(order.cases[case], int(ns), many) for case, ns, many in columns]
        cases.sort(key=lambda each: (-each.ns, each.case.number))
        yield GroupWork(trace, trace.grouped.names[number], mine, cases)
