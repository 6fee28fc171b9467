"""When each event ran, in nanoseconds, and the one order in which events are numbered."""

from __future__ import annotations

import numpy as np

from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import KIND, KINDS
from foretrace.sources.kineto.columns import kind_of
from foretrace.sources.kineto.joined import GPU_WORK, Joined, is_one_of
from foretrace.sources.kineto.times import Bools, Clock, Ints, nanoseconds

# Who is outside when two ranges start and end together: steps and annotations, then frames, ops,
# and calls.
_OUTER = {
    name: rank
    for rank, name in enumerate(
        ("user_annotation", "python_function", "cpu_op", "cuda_runtime", "cuda_driver")
    )
}
_FAR = np.iinfo(np.int64).max


class Times:
    """Start and length of every event in nanoseconds, and which of them may be used."""

    def __init__(self, joined: Joined, clock: Clock, ledger: LedgerBuilder) -> None:
        ts, dur, ranged = joined.ts, joined.dur, joined.ranged
        self.start, self.length = nanoseconds(ts), nanoseconds(dur)
        gpu = is_one_of(joined.kind, GPU_WORK)
        written = ts + clock.origin_us
        typical = (
            float(np.median(written[ranged & (written > 0)]))
            if bool((ranged & (written > 0)).any())
            else 0.0
        )
        stamped = ~((written == 0) & ((clock.base_ns is not None) or typical > 1e12) & ranged)
        missing = np.isnan(ts)
        inside = (np.abs(np.where(missing, 0, written)) < 9.0e15) & (written >= 0) | missing
        sane = np.abs(np.where(np.isnan(dur), 0, dur)) < 9.0e15
        ledger.note("ts_missing", int((ranged & missing).sum()))
        ledger.note("gpu_no_timestamp", int((gpu & ~stamped).sum()))
        ledger.note("ts_out_of_window", int((ranged & ((~gpu & ~stamped) | ~inside | ~sane)).sum()))
        self.timed: Bools = ~missing & inside & stamped & sane
        unending = np.isnan(dur) & ranged & (joined.kind != KIND["begin"])
        negative = (dur < 0) & ranged
        ledger.note("dur_missing", int((unending & ~missing).sum()))
        ledger.note("dur_negative", int((negative & sane).sum()))
        self.lasting: Bools = self.timed & ranged & ~unending & ~negative
        self.start = np.where(self.timed, self.start + clock.offset_ns, 0)
        self.length = np.where(self.lasting, self.length, 0)
        _pair_begin_end(joined, self, ledger)


def _pair_begin_end(joined: Joined, times: Times, ledger: LedgerBuilder) -> None:
    """`B` and `E` of one thread become one range; an `E` without its `B`, or the reverse, is noted."""
    marks = np.flatnonzero((joined.kind == KIND["begin"]) | (joined.kind == KIND["end"]))
    if not marks.size:
        return
    begins: dict[int, list[int]] = {}
    lone = 0
    for row in sorted(
        marks.tolist(), key=lambda row: (times.start[row], joined.kind[row] == KIND["begin"])
    ):
        waiting = begins.setdefault(int(joined.track[row]), [])
        if joined.kind[row] == KIND["begin"]:
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


def time_order(joined: Joined, times: Times) -> Ints:
    """Time order; among equals the longer first, then by kind, track, ids and name."""
    key = np.where(times.timed, times.start, _FAR)
    order = np.argsort(key, kind="stable")
    placed = key[order]
    same = placed[1:] == placed[:-1]
    if not same.any():
        return order
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    where = np.flatnonzero(tied)
    rows = order[where]
    rank = np.array([_OUTER.get(name, len(_OUTER) + code) for code, name in enumerate(KINDS)])
    within = np.lexsort(
        (
            joined.name[rows],
            joined.correlation[rows],
            joined.external[rows],  # an outer op was numbered before the one it calls
            joined.track[rows],
            rank[joined.kind[rows]],
            -times.length[rows],
            key[rows],
        )
    )
    order[where] = rows[within]
    return order
