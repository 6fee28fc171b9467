"""Groups of GPU work, named as the model's author would name them: RMSNorm, attention, optimizer.

`table` has one entry per group; other packages bring theirs through entry points. Every kernel,
memcpy and memset has exactly one group. It is found, in this order, from

    what launched it and what its name says   (`name_of` of each group, in `order`)
    its neighbours on the stream              (`patterns`), if that says only what the kernel does
    the forward op that it is the backward pass of, by autograd's sequence numbers

Work is per distinct kind of launch and over whole arrays: a million launches take no longer to name
than to read.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from foretrace.base import plugins
from foretrace.trace.groups.table import (
    GROUPS,
    Distinct,
    GpuWork,
    Pattern,
    Sequence,
    WorkGroup,
    is_matmul,
)
from foretrace.trace.intervals import Bools, Ints
from foretrace.trace.module_calls import AutogradNodes, ModuleCalls

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foretrace.trace.recording import Recording

__all__ = ["GpuWork", "Grouped", "Pattern", "WorkGroup", "every", "found"]

OTHER = "other kernels"


class Grouped(Struct, frozen=True):
    """The place in `names` of each GPU row's group, and which call of the group it belongs to.

    `call` numbers the matches of patterns, -1 for work that no pattern found. `backward` is the
    work of the backward pass.
    """

    names: list[str]
    group: Ints
    call: Ints
    backward: Bools

    @property
    def text(self) -> NDArray[Any]:
        """The group of each row as text."""
        return np.array(self.names, np.dtypes.StringDType())[self.group]


@cache
def every() -> tuple[WorkGroup, ...]:
    """All groups in the order they are tried, those of entry points included."""
    groups = [*GROUPS, *plugins.entries(WorkGroup, "foretrace.groups")]
    return tuple(sorted(groups, key=lambda group: (group.order, group.name)))


def found(trace: Recording, modules: ModuleCalls) -> Grouped:
    """Every row's group, and its call."""
    if not len(trace.gpu):
        none = np.zeros(0, np.int64)
        return Grouped([OTHER], none, none, none.astype(bool))
    return _Naming(trace, modules).done()


class _Naming:
    """Names the work of one trace; `names[group]` is a name, `by[group]` the group that gave it."""

    def __init__(self, trace: Recording, modules: ModuleCalls) -> None:
        self.trace = trace
        distinct = Distinct(trace, modules)
        self.names: list[str] = [OTHER]
        self.numbers = {OTHER: 0}
        self.by: list[WorkGroup | None] = [None]
        kinds = np.array([self._named(work) for work in distinct.kinds], np.int64)
        self.group: Ints = kinds[distinct.kind]
        self.call: Ints = np.full(len(trace.gpu), -1, np.int64)
        backward = np.array([work.backward for work in distinct.kinds], bool)
        matmul = np.array([is_matmul(work) for work in distinct.kinds], bool)
        self.backward: Bools = backward[distinct.kind]
        self.matmul: Bools = matmul[distinct.kind]
        copied = trace.gpu.is_memcpy & self._flags("weak", True)[self.group]
        patterns = [pattern for group in every() for pattern in group.patterns]
        self.sequence = Sequence(trace, distinct, trace.gpu.is_kernel | copied, patterns)

    def done(self) -> Grouped:
        for group in every():
            for pattern in group.patterns:
                self._match(group, pattern)
        self._follow_forward()
        return Grouped(self.names, self.group, self.call, self.backward)

    def _named(self, work: GpuWork) -> int:
        for group in every():
            if name := group.name_of(work):
                return self._number(name, group)
        return 0

    def _number(self, name: str, group: WorkGroup) -> int:
        number = self.numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
            self.by.append(group)
        return number

    def _flags(self, attribute: str, unknown: bool) -> Bools:
        return np.array([getattr(group, attribute, unknown) for group in self.by], bool)

    def _match(self, group: WorkGroup, pattern: Pattern) -> None:
        """Gives the kernels of each match to the group, if none of them says more than it does."""
        row, matmul = self.sequence.row, self.matmul[self.sequence.row]
        matches = np.array([*self.sequence.matches(pattern)], np.int64).reshape(-1, 2)
        if not len(matches):
            return
        mine = self._number(group.name, group)
        free = self._flags("weak", True)[self.group[row]] | (self.group[row] == mine)
        taken = np.concatenate(([0], np.cumsum(~(free | matmul))))
        matches = matches[taken[matches[:, 1]] == taken[matches[:, 0]]]
        length = matches[:, 1] - matches[:, 0]
        number = np.repeat(np.arange(len(matches)), length)
        places = np.arange(len(number)) + np.repeat(
            matches[:, 0] - np.cumsum(length) + length, length
        )
        chosen = free[places] | (pattern.matmuls & matmul[places])
        rows = row[places[chosen]]
        self.group[rows] = mine
        self.call[rows] = number[chosen] + int(self.call.max()) + 1

    def _follow_forward(self) -> None:
        """Backward kernels that say only what they do have the group of their forward op."""
        nodes = AutogradNodes(self.trace)
        op = nodes.forward_ops()
        rows = np.flatnonzero(op >= 0)
        forward = np.flatnonzero(~self.backward & (self.trace.origins.launch >= 0))
        if not len(rows) or not len(forward):
            return
        before, after = nodes.around(forward, op[rows])
        own = np.full(len(rows), -1, np.int64)
        # Whether each row was launched while the op ran
        ops = op[rows]
        origins = self.trace.origins
        begun = origins.launched[np.maximum(before, 0)] >= origins.host.start[ops]
        inside = (before >= 0) & begun
        own[inside] = self.group[before[inside]]
        between = ~inside & (before >= 0) & (after >= 0)
        between &= (self.call[before] == self.call[after]) & (self.call[before] >= 0)
        between &= self.group[before] == self.group[after]
        own[between] = self.group[before[between]]
        weak, lasting = self._flags("weak", True), self._flags("with_backward", False)
        follows = (own >= 0) & lasting[own] & (weak[self.group[rows]] | self.matmul[rows])
        self.group[rows[follows]] = own[follows]
