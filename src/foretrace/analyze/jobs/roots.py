"""From a late rank to the one that made it late: over waits in other groups, to the first cause."""

from __future__ import annotations

import numpy as np
import polars as pl

from foretrace.model.intervals import Ints

_OTHERS, _EARLIER = "other_comms", "earlier"
_NONE = -1


def with_roots(found: pl.DataFrame) -> pl.DataFrame:
    """Arrivals with `root` and `root_cause`; both null for arrivals that are not late.

    An arrival that other collectives delayed passes the blame to the rank that came last in the one
    of them where it waited longest for a late rank. One that was delayed earlier has the root of
    its arrival at the group's previous collective, if it was late there.
    """
    rows = np.arange(len(found))
    next_row = _next(found)
    root = np.where(next_row == _NONE, rows, next_row)
    while not (root[root] == root).all():
        root = root[root]
    late = pl.col("late")
    return found.with_columns(
        pl.when(late).then(found["rank"].gather(root)).alias("root"),
        pl.when(late).then(found["cause"].gather(root)).alias("root_cause"),
        *(pl.when(late & ~pl.col("pair")).then(name) for name in ("caused_ns", "delays_ns")),
    )


def _next(found: pl.DataFrame) -> Ints:
    """The row to blame instead of each row, or -1."""
    late, collective = found["late"].to_numpy(), found["collective_id"].to_numpy()
    unknown = found["behind_ns"].is_null().to_numpy()  # a pipeline that compares with no other
    lasts = np.flatnonzero((late | unknown) & found["last"].to_numpy())
    last_of = np.full(int(collective.max()) + 1, _NONE)
    last_of[collective[lasts]] = lasts
    last = last_of[collective]
    # of a wait, what a late rank caused: a pipeline waits for its turn as well
    behind = found["behind_ns"].fill_null(np.iinfo(np.int64).max).to_numpy()
    blamed = np.where(last == _NONE, 0, np.minimum(found["wait_ns"].to_numpy(), behind[last]))
    blamed = np.where(blamed > found["error_ns"].to_numpy(), blamed, 0)
    ends, to = _Ends(found, blamed), np.full(len(found), _NONE)
    cause, pair = found["cause"], found["pair"].to_numpy()
    earlier = late & (cause == _EARLIER).fill_null(False).to_numpy()
    for rows, since in (
        (np.flatnonzero(late & (cause == _OTHERS).fill_null(False).to_numpy()), found["since_ns"]),
        # pipelines are not released together: any wait of the step may have made this rank late
        (np.flatnonzero(earlier & pair), _step_starts(found)),
    ):
        held = ends.longest_wait(rows, since.fill_null(0).to_numpy())
        to[rows] = np.where((held != _NONE) & (blamed[held] > 0), last[held], _NONE)
    rows = np.flatnonzero(earlier & ~pair)
    held = ends.before(rows)
    to[rows] = np.where((held != _NONE) & late[held], held, _NONE)
    return to


def _step_starts(found: pl.DataFrame) -> pl.Series:
    """When the rank came to its first collective of the step."""
    return found.select(pl.col("start_ns").min().over("rank", "step")).to_series()


class _Ends:
    """The arrivals of each rank in order of their ends."""

    def __init__(self, found: pl.DataFrame, waited: Ints) -> None:
        self.lane = found["rank"].rank("dense").to_numpy().astype(np.int64) - 1
        self.end, self.wait = found["end_ns"].to_numpy(), waited
        self.since = found["since_ns"].fill_null(0).to_numpy()
        self.group = found["group"].to_physical().to_numpy()
        self.start = found["start_ns"].to_numpy()
        self.base = np.full(int(self.lane.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(self.base, self.lane, self.end)  # each rank may have an epoch of its own
        self.length = int((self.end - self.base[self.lane]).max()) + 2
        key = self._key(self.end, np.arange(len(found)))
        self.order = np.argsort(key, kind="stable")
        self.key = key[self.order]

    def _key(self, moments: Ints, rows: Ints) -> Ints:
        lane = self.lane[rows]
        key: Ints = (moments - self.base[lane]).clip(-1, self.length - 2) + lane * self.length
        return key

    def _until(self, moments: Ints, rows: Ints) -> Ints:
        """How many ends, in order, lie at or before a moment of the row's rank."""
        return np.searchsorted(self.key, self._key(moments[rows], rows), "right")

    def longest_wait(self, rows: Ints, since: Ints) -> Ints:
        """The arrival of the same rank that waited longest of those that ended after `since` and
        until this one starts, or -1.
        """
        if not len(rows):
            return rows
        low, high = self._until(since, rows), self._until(self.start, rows)
        bits = len(self.end).bit_length()
        packed = (self.wait[self.order].clip(0, (1 << (62 - bits)) - 1) << bits) + self.order
        packed = np.append(packed, 0)  # a range may end behind the last
        most = np.maximum.reduceat(packed, np.stack([low, high], 1).reshape(-1))[::2]
        longest: Ints = np.where(low < high, most & ((1 << bits) - 1), _NONE)
        return longest

    def before(self, rows: Ints) -> Ints:
        """The arrival of the same rank and group that ended at `since_ns`, or -1."""
        at = self.order[np.maximum(self._until(self.since, rows) - 1, 0)]
        same = (self.end[at] == self.since[rows]) & (self.lane[at] == self.lane[rows])
        return np.where(same & (self.group[at] == self.group[rows]), at, _NONE)
