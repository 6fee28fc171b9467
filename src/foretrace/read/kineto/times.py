"""When each event ran, in exact integer nanoseconds, on the host's clock, and the order of events.

Times are written in microseconds, in five ways over the eras of the format. A decimal with three
digits below 2^43 us is the nearest double to that decimal, so splitting whole and fraction and
rounding the fraction to thousandths gives back every nanosecond. Absolute float times of early 2024
lost their digits in the writer (a double near 1.7e15 has steps of a quarter microsecond): nothing
more is lost here, and the resolution is stated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import Bools, Floats, Ints, distinct, is_in
from foretrace.base.patterns import regex
from foretrace.base.units import time_text, whole
from foretrace.read.kineto.joined import GPU_WORK, Joined, is_one_of
from foretrace.read.kineto.records import LAST_US, kind_of
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.tables import KIND, KINDS, WORK_KINDS

_DAY, _MINUTE = 86_400 * 10**9, 60 * 10**9
_MOST_TOGETHER = 1 << 62
_MOST_APART = 1 << 58  # GPU work may lie as far again beside the host's, and trees double it
_SPREADS = 10  # a recording reaches no further than this many times where nine tenths of it lie
_SAME_CLOCK = 0.1  # the share of GPU events near the host's that proves one clock
_GPU_CLOCK = (*WORK_KINDS, "gpu_user_annotation", "cuda_sync", "cuda_event")


def outliers(joined: Joined, start: Ints, length: Ints, timed: Bools) -> Bools:
    """The events whose time cannot be that of this recording: another clock stamped them.

    Host events lie around their median, however long the pauses between them. GPU events lie in the
    host's stretch of time, or follow it without a long gap: a queue may outlast its host. Where
    hardly any of them do, the GPU has a clock of its own, which the model notes; then its events
    lie around their own median.

    All durations together take less than 2^62 ns, and so do the stretches of time of all threads
    and streams laid end to end: no sum that is derived from them leaves 64 bits.
    """
    seen = timed & (joined.ranged | (joined.kind == KIND["memory"]))
    own_clock = is_one_of(joined.kind, tuple(KIND[name] for name in _GPU_CLOCK))
    host, gpu = np.flatnonzero(seen & ~own_clock), np.flatnonzero(seen & own_clock)
    odd = np.zeros(len(start), np.bool_)
    most = _MOST_APART // max(joined.lanes, 1)
    odd[host] = _far(start[host], length[host], most)
    kept = host[~odd[host]]
    far = _far(start[gpu], length[gpu], most)
    odd[gpu] = _beside(start[kept], length[kept], start[gpu], length[gpu], far)
    rows = np.flatnonzero(seen & ~odd)
    if length[rows].sum(dtype=np.float64) >= _MOST_TOGETHER:
        odd[rows] |= length[rows] > _MOST_TOGETHER // len(rows)
    return odd


def _far(start: Ints, length: Ints, most: int) -> Bools:
    """What lies far from the median; a day is not far, unless it is beyond `most`."""
    day = min(_DAY, most)
    if not len(start) or (int(start.max() - start.min()) <= day and int(length.max()) <= day):
        return np.zeros(len(start), np.bool_)
    low, middle, high = (int(at) for at in np.quantile(start, (0.05, 0.5, 0.95), method="lower"))
    reach = min(max(_DAY, _SPREADS * (high - low)), most)
    return (np.abs(start - middle) > reach) | (length > reach)


def _beside(host: Ints, host_length: Ints, start: Ints, length: Ints, far: Bools) -> Bools:
    """The GPU events that are not beside the host's; without host events, those far from others."""
    if not len(host) or not len(start):
        return far
    low, high = int(host.min()), int((host + host_length).max())
    slack = max(high - low, _MINUTE)
    late = np.flatnonzero((start > high) & ~far)
    late = late[np.argsort(start[late], kind="stable")]
    ends = (start + np.minimum(length, slack))[late]
    gap = start[late] - np.maximum.accumulate(np.concatenate(([high], ends[:-1])))[: len(late)]
    following = late[np.cumsum(gap > slack) == 0]
    near = (start >= low - slack) & (start <= high) & ~far
    near[following] = True
    return far if near.sum() < _SAME_CLOCK * len(start) else ~near


BASE = "baseTimeNanoseconds"
_UNUSABLE_BASE = f"{BASE} is unusable: times are relative, ranks cannot be aligned"
_LAST_BASE = 4 * 10**18  # the year 2096: a base and a time of ten years fit 62 bits
_EPOCH_US = 10**14  # later than 1973: a time this large counts from 1970
# which range is outside when two start and end together
_OUTER = ("user_annotation", "python_function", "cpu_op", "cuda_runtime", "cuda_driver")
_FAR = np.iinfo(np.int64).max


class Clock(Struct, frozen=True):
    """How this trace counts: what its times start from, and how fine they are."""

    base_ns: int | None
    offset_ns: int
    resolution_ns: int


def nanoseconds(us: Floats) -> Ints:
    """Exact for every relative time; unusable values come out as 0."""
    usable = np.abs(us) < LAST_US
    safe = np.where(usable, us, 0.0)
    whole = np.floor(safe)
    fraction = np.rint((safe - whole) * 1000.0)
    result: Ints = whole.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return result


def clock_of(header: dict[str, Any], joined: Joined, ledger: LedgerBuilder) -> Clock:
    """Which era wrote these times; their precision and a missing origin are noted."""
    ts = joined.ts[joined.ranged]
    positive = ts[(ts > 0) & (ts < LAST_US)]
    typical = float(np.median(positive)) if positive.size else 0.0
    if typical >= _EPOCH_US:
        text, resolution = "times are whole microseconds: +-1000 ns", 1000
        if len(joined.exact_event):
            text = "absolute times as floating point: the writer may have lost up to +-250 ns"
            resolution = 250
        ledger.note("ts_precision", text=text)
        return Clock(0, 0, resolution)
    value = header.get(BASE)
    if isinstance(value, str):
        value = whole(value)
    base = value if isinstance(value, int) and 0 <= value < _LAST_BASE else None
    if base is None:
        if positive.size:
            ledger.note("base_missing", text=_UNUSABLE_BASE if BASE in header else "")
        return Clock(None, 0, 1)
    return Clock(base, base, 1)


class EventTimes:
    """Start and length of every event in nanoseconds, and which of them may be used."""

    def __init__(self, joined: Joined, clock: Clock, ledger: LedgerBuilder) -> None:
        ts, dur, ranged = joined.ts, joined.dur, joined.ranged
        self.start, self.length = nanoseconds(ts), nanoseconds(dur)
        self.start[joined.exact_event] = joined.exact_ns
        gpu = is_one_of(joined.kind, GPU_WORK)
        stamped = ~_lost_times(joined, gpu)
        missing = np.isnan(ts)
        inside = (ts >= 0) & (ts < LAST_US - clock.offset_ns / 1000) | missing
        sane = ~(np.abs(dur) >= LAST_US)
        ledger.note("ts_missing", int((ranged & missing).sum()))
        ledger.note("gpu_no_timestamp", int((gpu & ~stamped).sum()))
        ledger.note("ts_out_of_window", int((ranged & ((~gpu & ~stamped) | ~inside | ~sane)).sum()))
        self.timed: Bools = ~missing & inside & stamped & sane
        unending = np.isnan(dur) & ranged & (joined.kind != KIND["begin"])
        negative = (dur < 0) & ranged
        ledger.note("dur_missing", int((unending & ~missing).sum()))
        ledger.note("dur_negative", int((negative & sane).sum()))
        self.lasting: Bools = self.timed & ranged & ~unending & ~negative
        self.length = np.where(self.lasting, self.length, 0)
        _pair_begin_end(joined, self, ledger)
        odd = outliers(joined, self.start, self.length, self.timed)
        ledger.note("time_outlier", int(odd.sum()))
        self.timed, self.lasting = self.timed & ~odd, self.lasting & ~odd
        self.start = np.where(self.timed, self.start + clock.offset_ns, 0)
        self.length = np.where(self.lasting, self.length, 0)


def _lost_times(joined: Joined, gpu: Bools) -> Bools:
    """Which events have a time of 0 that is none.

    A recording that begins at 0 has other events near it, or inside the one that begins there. GPU
    work at 0 follows a host event, and on its stream nothing else begins with it.
    """
    ts, ranged = joined.ts, joined.ranged
    positive, host = ts[ranged & (ts > 0)], ranged & ~gpu
    zero: Bools = (ts == 0) & ranged
    if not zero.any():
        return zero
    most = np.quantile(positive, (0.05, 0.95), method="lower") if positive.size else (0.0, 0.0)
    low, high = map(float, most)
    if low > high - low and not (joined.dur[zero] >= low).any():
        return zero
    alone = np.bincount(joined.track[zero & gpu], minlength=len(joined.tracks)) == 1
    begins = not host.any() or bool((zero & host).any())
    lost: Bools = zero & gpu & ~(alone[joined.track] & begins)
    return lost


def _pair_begin_end(joined: Joined, times: EventTimes, ledger: LedgerBuilder) -> None:
    """Make one range of each `B` and its `E` on one thread; note those without a partner."""
    marks = np.flatnonzero((joined.kind == KIND["begin"]) | (joined.kind == KIND["end"]))
    if not marks.size:
        return
    begins: dict[int, list[int]] = {}
    lone = 0
    for row in sorted(
        marks.tolist(), key=lambda row: (times.start[row], joined.kind[row] == KIND["begin"])
    ):
        waiting = begins.setdefault(int(joined.track[row]), [])
        if not times.timed[row]:
            lone += 1
        elif joined.kind[row] == KIND["begin"]:
            waiting.append(row)
        elif waiting:
            opened = waiting.pop()
            times.length[opened] = times.start[row] - times.start[opened]
            times.lasting[opened] = True
            phase_category = joined.sites[int(joined.site[opened])][1]
            joined.kind[opened] = kind_of("X", phase_category)
            joined.kind[row] = KIND["instant"]
        else:
            lone += 1
    ledger.note("dur_missing", lone + sum(len(waiting) for waiting in begins.values()))


def time_order(joined: Joined, times: EventTimes) -> Ints:
    """Time order; among equals the longer first, then by kind, track, ids and name."""
    key = np.where(times.timed, times.start, _FAR)
    order = np.argsort(key, kind="stable")
    placed = key[order]
    same = placed[1:] == placed[:-1]
    if not same.any():
        return order
    ranks = [_OUTER.index(name) if name in _OUTER else 99 + KIND[name] for name in KINDS]
    rank = np.array(ranks, np.int64)
    for next_key in (
        lambda rows: -times.length[rows],
        lambda rows: (rank[joined.kind[rows]] << 32) + joined.track[rows],
        lambda rows: joined.external[rows],  # an outer op was numbered before the one it calls
        lambda rows: joined.correlation[rows],
        lambda rows: joined.name[rows],
    ):
        # sort each run of equals by one more key
        tied = np.zeros(len(order), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        where = np.flatnonzero(tied)
        rows = order[where]
        run = np.cumsum(np.concatenate(([True], ~same))[where])
        values = next_key(rows)
        within = np.lexsort((values, run))
        order[where] = rows[within]
        values = values[within]
        # what is still equal to its neighbour
        still = (values[1:] == values[:-1]) & (run[1:] == run[:-1])
        same = np.zeros_like(same)
        same[where[1:][still] - 1] = True
    return order


# How far the GPU's clock is from the host's, by what launches and waits say.
#
# Nothing starts before its launch, and a call that waits for the GPU returns after its work. On an
# idle GPU work starts some microseconds after its launch, and a long wait returns some microseconds
# after what it waited for. A shift of one clock changes all these times by the same amount, so the
# least of them say where the clock stands:
#
#     launches  where the GPU was idle before two or more of the quickest
#     waits     otherwise, where a call waited long for all of the work: launches met a busy GPU
#     nothing   otherwise; then the quickest launch is taken as quick, and the offset is proven only
#               where work starts before its launch, or a wait returns before the work has ended
#
# A proven offset beyond `APART_NS` is corrected. What is left of it goes with the tables
# (`gpu_lag_ns`): whoever compares times of both clocks adds it to the host's, so that no answer
# depends on it.

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
    device = joined.process[joined.track[rows]]
    end = times.start + times.length
    work = LaunchedWork(call, times.start[call], times.start[rows], end[rows], device)
    one_stream = len(distinct(joined.track[rows])) == 1
    # calls that return after all work that was launched before them
    for_all = [_WAITS_FOR_ALL, _WAITS_FOR_STREAM] if one_stream else [_WAITS_FOR_ALL]
    waits = np.array(
        [any(each.fullmatch(name) for each in for_all) for name in joined.names], np.bool_
    )
    waiting = calls[waits[joined.name[calls]]]
    # what was launched last must be in the trace: else the wait may have been for what is not
    issued = calls[is_in(joined.name[calls], distinct(joined.name[call]))]
    issued = issued[np.argsort(times.start[issued], kind="stable")]
    last = np.searchsorted(times.start[issued], times.start[waiting], side="right") - 1
    known = is_in(np.append(issued, -1)[last], call) & (len(distinct(device)) == 1)
    waiting = waiting[known]
    return gpu_lag(work, times.start[waiting], end[waiting])


def _linked(joined: Joined, calls: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The operations whose id one call has, and that call; other ids may be of two processes."""
    ids = joined.correlation
    given, first, count = np.unique(ids[calls], return_index=True, return_counts=True)
    given, first = given[count == 1], first[count == 1]
    rows = rows[is_in(ids[rows], given)]
    return rows, calls[first[np.searchsorted(given, ids[rows])]]


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
