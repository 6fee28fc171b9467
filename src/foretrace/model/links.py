"""Which call launched which GPU operation: by correlation id, within one process.

Ids repeat from process to process. A merged file may hold several, and its GPU events do not state
theirs. Then the process is that of the only launch with this id that fits: its pid, its External
id, no other launch came before the operation, or all others started something else. What remains
open is decided by the device, if all that is known to run there comes from one process. Otherwise
the operation stays unlinked: a false link is worse than none.

A delay or a cause of idle time needs one clock for host and GPU (`disagreement`). A queue may delay
every operation of a recording, but not for a minute, and not for longer than the whole recording
while the GPU did nothing else. Nothing starts a millisecond before its launch.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.model.host import HOST_KINDS, Host
from foretrace.model.intervals import Bools, Ints, numbered
from foretrace.schema.tables import NONE

_MOST_PROCESSES = 16  # with one id: more are not told apart


class Ids(Struct, frozen=True):
    """The correlation and External id of every event; unknown is NONE."""

    correlation: Ints
    external: Ints


class Links(Struct, frozen=True):
    """For every GPU operation its call or -1; `repeated` ids were used by several calls of one
    process, `untold` operations have launches in several processes.
    """

    launch: Ints
    repeated: int
    untold: Bools


class Linker:
    """The calls by id and process, and the GPU operations (`rows`) that look for theirs."""

    def __init__(self, host: Host, ids: Ids, callers: Ints, rows: Ints, device: Ints) -> None:
        self.host, self.ids, self.rows, self.device = host, ids, rows, device
        both = np.concatenate((callers, rows))
        key = numbered(host.namespace[both], ids.correlation[both])
        given, self.wanted = key[: len(callers)], key[len(callers) :]
        order = np.lexsort((host.start[callers], host.process[callers], given))
        self.calls, self.start = callers[order], host.start[callers[order]]
        self.process = host.process[self.calls]
        given = given[order]
        self.low = np.searchsorted(given, self.wanted, "left")
        self.high = np.searchsorted(given, self.wanted, "right")
        again = (given[1:] == given[:-1]) & (self.process[1:] == self.process[:-1])
        self.crowded = np.union1d(self.calls[1:][again], self.calls[:-1][again])

    def run(self) -> Links:
        """Most ids belong to one call; the others are looked at one by one."""
        launch, untold = np.full(len(self.rows), -1, np.int64), np.zeros(len(self.rows), np.bool_)
        several = np.flatnonzero(self.high - self.low > 1)
        one = self.high - self.low == 1
        launch[one] = self.calls[self.low[one]]
        fitting = {at: self._fitting(at) for at in several.tolist()}
        for at, found in fitting.items():
            launch[at], untold[at] = (found[0], False) if len(found) == 1 else (-1, True)
        if untold.any():
            self._by_elimination(launch, untold, fitting)
            self._by_device(launch, untold, fitting)
        repeated = distinct(self.wanted[several][np.isin(launch[several], self.crowded)])
        return Links(launch, len(repeated), untold)

    def _fitting(self, at: int) -> list[int]:
        """The nearest earlier call of each process that may have launched this operation."""
        row, start = int(self.rows[at]), self.host.start[self.rows[at]]
        calls = self._nearest(int(self.low[at]), int(self.high[at]), int(start))
        host, external = self.host, self.ids.external
        same = [call for call in calls if external[call] == external[row] != NONE]
        earlier = [call for call in same or calls if host.start[call] <= start]
        own = [call for call in calls if host.process[call] == host.process[row]]
        return own or (earlier if len(earlier) == 1 and host.timed[row] else same or calls)

    def _nearest(self, low: int, high: int, start: int) -> list[int]:
        """Of each process the last call that began before `start`, or else its first."""
        found: list[int] = []
        while low < high and len(found) <= _MOST_PROCESSES:
            stop = low + int(np.searchsorted(self.process[low:high], self.process[low], "right"))
            begun = int(np.searchsorted(self.start[low:stop], start, "right"))
            found.append(int(self.calls[max(low + begun - 1, low)]))
            low = stop
        return found

    def _by_elimination(self, launch: Ints, untold: Bools, fitting: dict[int, list[int]]) -> None:
        """Link what has one launch left that started nothing else; only graphs start several."""
        taken = set(launch[launch >= 0].tolist())
        for at in np.flatnonzero(untold).tolist():
            free = [
                call for call in fitting[at] if call not in taken or self.host.is_graph_launch[call]
            ]
            if len(free) == 1:
                launch[at], untold[at] = free[0], False
                taken.add(free[0])

    def _by_device(self, launch: Ints, untold: Bools, fitting: dict[int, list[int]]) -> None:
        """Link what is open where the device has one process, and one operation with this id."""
        owner: dict[int, int] = {}
        linked = launch >= 0
        pairs = np.stack((self.device[linked], self.host.process[launch[linked]]))
        for device, process in np.unique(pairs, axis=1).T.tolist():
            owner[device] = -1 if device in owner else process
        place = numbered(self.wanted, self.device)
        alone = np.bincount(place)[place] == 1  # a plain launch starts only one
        for at in np.flatnonzero(untold & alone).tolist():
            process = owner.get(int(self.device[at]), -1)
            mine = [call for call in fitting[at] if self.host.process[call] == process]
            if mine:
                launch[at], untold[at] = mine[0], False


_MILLISECOND, _SECOND = 10**6, 10**9
_MINUTE = 60 * _SECOND
_MOST = 0.9  # the share of a device's operations that must agree


def disagreement(host: Host, device: Ints, start: Ints, delay: Ints, linked: Bools) -> int:
    """How far the clock of the worst device is from the host's, in ns; 0 where they agree.

    `device` is a number for each; `delay` is from the launch to the start, where it is `linked`.
    """
    rows = np.flatnonzero(host.lasting & host.is_kind(*HOST_KINDS, "span"))
    if not len(rows) or not len(start):
        return 0
    low, high = int(host.start[rows].min()), int(host.end[rows].max())
    first = np.full(int(device.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, device, start)
    least, most, found = _quantiles(device[linked], delay[linked])
    idle_till_late = (least > max(high - low, _SECOND)) & (first[found] > high)
    wrong = (least > _MINUTE) | idle_till_late | (most < -_MILLISECOND)
    linked_by = np.where(most < 0, most, least)[wrong]
    unlinked = np.delete(first, found)
    beside = np.maximum(unlinked - high, low - unlinked)[unlinked < np.iinfo(np.int64).max]
    apart = np.concatenate((np.abs(linked_by), beside[beside > max(high - low, _MINUTE)]))
    return int(apart.max(initial=0))


def _quantiles(device: Ints, delay: Ints) -> tuple[Ints, Ints, Ints]:
    """What most delays of each device exceed, and what most do not; and those devices."""
    order = np.lexsort((delay, device))
    found, begin, count = np.unique(device[order], return_index=True, return_counts=True)
    low = begin + ((1 - _MOST) * (count - 1)).astype(np.int64)
    high = begin + np.ceil(_MOST * (count - 1)).astype(np.int64)
    return delay[order][low], delay[order][high], found
