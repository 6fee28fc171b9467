"""How far the GPU's clock is from the host's, by what launches and waits say.

Nothing starts before its launch, and a call that waits for the GPU returns after its work. On an
idle GPU work starts some microseconds after its launch, and a long wait returns some microseconds
after what it waited for. A shift of one clock changes all these times by the same amount, so the
least of them say where the clock stands:

    launches  where the GPU was idle before two or more of the quickest
    waits     otherwise, where a call waited long for all of the work: launches met a busy GPU
    nothing   otherwise; then the quickest launch is taken as quick, and the offset is proven only
              where work starts before its launch, or a wait returns before the work has ended

A proven offset beyond `APART_NS` is corrected. What is left of it goes with the tables
(`gpu_lag_ns`): whoever compares times of both clocks adds it to the host's, so that no answer
depends on it.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import Bools, Ints, distinct
from foretrace.base.patterns import regex
from foretrace.base.units import time_text
from foretrace.read.kineto.joined import GPU_WORK, Joined, is_one_of
from foretrace.read.kineto.times import EventTimes
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import KIND

# The quickest launch of a recording takes this long, from its call to its work. On recorded traces:
# 5 to 18 us on H200, H100, B200 and A100, 5 to 26 us on MI210, MI250 and MI300X.
QUICKEST_NS = 7_000
# A wait returns this long after the work; 4 to 28 us on the same traces.
RETURN_NS = 8_000
# A wait this long waited: with nothing to wait for it takes at most 68 us on the same traces.
LONG_NS = 100_000
# Before work that starts after so long a pause the GPU was idle; in a queue work follows sooner.
PAUSE_NS = 20_000
# Launches on an idle GPU take up to this much longer than the quickest.
SPREAD_NS = 20_000
# Clocks that are nearer agree, as far as launches and waits tell.
APART_NS = 100_000
_OUTLIERS = 100  # one launch of so many may have a false time
_CALLS = (KIND["cuda_runtime"], KIND["cuda_driver"])
_STAMPED = (*GPU_WORK, KIND["gpu_user_annotation"])  # by the GPU's clock
_WAITS_FOR_ALL = regex(r"(?:cuda|cu|hip)(?:Device|Ctx|Context)Synchronize\w*")
_WAITS_FOR_STREAM = regex(r"(?:cuda|cu|hip)StreamSynchronize\w*|hipMemcpyWithStream|cudaMemcpy")


class LaunchedWork(Struct, frozen=True):
    """GPU operations in order of time: the call that launched each and when, when it ran, and a
    number for its device.
    """

    launch: Ints
    called: Ints
    start: Ints
    end: Ints
    device: Ints


class GpuLag(Struct, frozen=True):
    """How much later the GPU's clock is; `proven` where launches or waits leave no other."""

    ns: int = 0
    proven: bool = False


def align(joined: Joined, times: EventTimes, ledger: LedgerBuilder) -> int:
    """Put GPU times on the host's clock where they are far from it; returns what is left."""
    lags = [_lag_of(joined, times, space) for space in range(max(len(joined.namespaces), 1))]
    merged = len(lags) > 1  # what is left is that of one
    apart = [lag.ns if lag.proven and (merged or abs(lag.ns) > APART_NS) else 0 for lag in lags]
    if any(apart):
        moved = np.array(apart, np.int64)[joined.namespace]
        times.start -= np.where(is_one_of(joined.kind, _STAMPED) & times.timed, moved, 0)
        ns = max(apart, key=abs)
        if abs(ns) > APART_NS:
            side = "late" if ns > 0 else "early"
            text = f"GPU times were {time_text(abs(ns))} {side} by the host's clock"
            ledger.note("clock_offset", text=f"{text}, as launches and waits tell: corrected")
    return 0 if merged else lags[0].ns - apart[0]


def _lag_of(joined: Joined, times: EventTimes, space: int) -> GpuLag:
    """The offset of one rank."""
    mine = times.lasting & (joined.namespace == space)
    calls = np.flatnonzero(mine & is_one_of(joined.kind, _CALLS))
    rows = np.flatnonzero(mine & is_one_of(joined.kind, GPU_WORK) & (joined.correlation > 0))
    rows, call = _linked(joined, calls, rows[np.argsort(times.start[rows], kind="stable")])
    device = _numbered([pid for pid, _ in joined.tracks])[joined.track[rows]]
    end = times.start + times.length
    work = LaunchedWork(call, times.start[call], times.start[rows], end[rows], device)
    one_stream = len(distinct(joined.track[rows])) == 1
    waits = np.array([_waits(name, one_stream) for name in joined.names], np.bool_)
    waiting = calls[waits[joined.name[calls]]]
    # what was launched last must be in the trace: else the wait may have been for what is not
    issued = calls[np.isin(joined.name[calls], distinct(joined.name[call]))]
    issued = issued[np.argsort(times.start[issued], kind="stable")]
    last = np.searchsorted(times.start[issued], times.start[waiting], side="right") - 1
    known = np.isin(np.append(issued, -1)[last], call) & (len(distinct(device)) == 1)
    waiting = waiting[known]
    return gpu_lag(work, times.start[waiting], end[waiting])


def _linked(joined: Joined, calls: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The operations whose id one call has, and that call; other ids may be of two processes."""
    ids = joined.correlation
    given, first, count = np.unique(ids[calls], return_index=True, return_counts=True)
    given, first = given[count == 1], first[count == 1]
    rows = rows[np.isin(ids[rows], given)]
    return rows, calls[first[np.searchsorted(given, ids[rows])]]


def _numbered(values: list[object]) -> Ints:
    number = {value: at for at, value in enumerate(values)}
    return np.array([number[value] for value in values], np.int64)


def _waits(name: str, one_stream: bool) -> bool:
    """Whether a call of this name returns after all work that was launched before it."""
    found = _WAITS_FOR_ALL.fullmatch(name)
    return bool(found or (one_stream and _WAITS_FOR_STREAM.fullmatch(name)))


def gpu_lag(work: LaunchedWork, wait_start: Ints, wait_end: Ints) -> GpuLag:
    """The offset of the GPU's clock; each wait is for all work launched before it, and for some."""
    if not len(work.start):
        return GpuLag()
    first = np.unique(work.launch, return_index=True)[1]
    delay = (work.start - work.called)[first]
    paused = _after_pause(work)[first]
    # where the GPU is never idle but between steps, the quickest launches are fewer than one of a
    # hundred: those that met it idle, where two agree
    idle = np.sort(delay[paused])
    found = int(np.sort(delay)[(len(delay) - 1) // _OUTLIERS])
    agree = np.flatnonzero(np.diff(idle) <= SPREAD_NS)
    quick = int(idle[agree[0] + 1]) if len(agree) else found
    quickest = quick if quick < found - SPREAD_NS else found
    by_launch = quickest - QUICKEST_NS
    free = paused & (delay <= quickest + SPREAD_NS)
    if free.sum() > 1:
        return GpuLag(by_launch, True)
    # how long after the work that came before it each wait returned
    order = np.argsort(work.called, kind="stable")
    before = np.searchsorted(work.called[order], wait_start, side="right")
    done = np.maximum.accumulate(work.end[order])
    returned = wait_end - done[before - 1]
    waited = returned[wait_end - wait_start > LONG_NS]
    if len(waited):
        return GpuLag(min(by_launch, RETURN_NS - int(waited.min())), True)
    return GpuLag(by_launch, min(quickest, int(returned.min(initial=0))) < 0)


def _after_pause(work: LaunchedWork) -> Bools:
    """Before which operations their device was idle for long."""
    found = np.zeros(len(work.start), np.bool_)
    for device in distinct(work.device).tolist():
        rows = np.flatnonzero(work.device == device)
        busy_until = np.maximum.accumulate(work.end[rows])[:-1]
        found[rows[1:]] = work.start[rows[1:]] - busy_until > PAUSE_NS
    return found
