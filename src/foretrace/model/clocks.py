"""Whether host and GPU count time alike: a delay or a cause of idle time needs both.

A queue may delay every operation of a recording, but not for a minute, and not for longer than the
whole recording while the GPU did nothing else. Nothing starts a millisecond before its launch.
"""

from __future__ import annotations

import numpy as np

from foretrace.model.host import HOST_KINDS, Host
from foretrace.model.intervals import Bools, Ints

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
