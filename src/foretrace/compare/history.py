"""A program over its commits: what is kept of a run, and where something changed.

Counts are exact, so every difference is a change. A run counts once in time, with its median. In a
series of runs under one set of circumstances, the place between two commits with the largest rank
sum is a change where fewer than `ALPHA` of the random orders of the same runs reach it; the parts
before and after are searched again. Ranks and orders assume nothing about the noise, so a history
without a change has a false one in about 4% (docs/history.md).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import sqrt

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from foretrace.base.errors import UsageError
from foretrace.check.baseline import counted
from foretrace.check.evidence import Evidence
from foretrace.check.windows import span_window
from foretrace.compare.history_documents import (
    GPU_TIME,
    MOST_FUSIONS,
    MOST_TIMES,
    NO_PROFILER,
    PROFILED,
    HistoryChange,
    HistoryDocument,
    HistoryEntry,
    HistoryRow,
)
from foretrace.compare.measure import middle
from foretrace.compare.sides import Repeats, choose, repeats
from foretrace.trace.trace import Trace

ALPHA = 0.04
SIDE = 4  # runs: of eight in two halves, chance puts all slow ones last in 2.9% of the orders
ORDERS, DRAWS = 1999, 400
LEAST = 0.01  # of the step: less is nothing to act on, however sure
MEMORY = 0.01  # of the peak: the allocator rounds each block up
CIRCUMSTANCES = ("device", "torch", "basis", "unit")
Floats = NDArray[np.float64]


def entry_of(trace: Trace, commit: str, date: str, peak_bytes: int | None = None) -> HistoryEntry:
    """What is kept of one run; `peak_bytes` is from memory events, else the run record has it."""
    unit = choose([trace])
    found = repeats(trace, unit)
    times, basis = _times(trace, found)
    if not times:
        raise UsageError(f"{trace.path}: no step has a time: there is nothing to keep")
    kernels, fusions = counted(span_window(Evidence(trace), found.typical, ""))
    run, about = trace.run, trace.about
    return HistoryEntry(
        commit,
        date,
        times[:MOST_TIMES],
        basis,
        _cut(f"call of {unit.name}" if unit.kind == "region" else unit.word),
        kernels,
        [_cut(each) for each in fusions[:MOST_FUSIONS]],
        run.memory.peak_device_bytes if peak_bytes is None else peak_bytes,
        _cut(about.device or (run.device.name or "" if run.device else "")) or None,
        _cut((run.torch.version or "") if run.torch else "") or None,
    )


def _cut(text: str) -> str:
    return text[:200]


def _times(trace: Trace, found: Repeats) -> tuple[list[float], str]:
    """Times without the profiler where the run record has them; else GPU time; else the host's."""
    timing = trace.run.timing
    bare = timing.block_ns or [timing.wall_ns_per_call]
    if known := [float(ns) for ns in bare if ns is not None]:
        return known, NO_PROFILER
    if len(trace.gpu):
        busy = [float(trace.spans.busy(span)) for span in found.spans]
        return [ns for ns in busy if ns >= 1], GPU_TIME
    return [float(span.cpu_ns) for span in found.spans if span.cpu_ns >= 1], PROFILED


def history(entries: Sequence[HistoryEntry], left_out: Sequence[str] = ()) -> HistoryDocument:
    """The commits in the order of their first dates, and what changed between them."""
    first = dict[str, str]()
    for entry in sorted(entries, key=lambda each: each.date):
        first.setdefault(entry.commit, entry.date)
    ordered = sorted(entries, key=lambda each: (first[each.commit], each.commit, each.date))
    series = dict[tuple[object, ...], list[HistoryEntry]]()
    for entry in ordered:
        series.setdefault(_key(entry), []).append(entry)
    tested = [_Series.of(runs) for runs in series.values()]
    share = ALPHA / max(sum(each.is_long for each in tested), 1)
    changes = [*_counted_changes(ordered)]
    changes += [change for each in tested for change in each.changes(share)]
    last = ordered[-1]
    newest = tested[list(series).index(_key(last))]
    return HistoryDocument(
        [_row(runs) for runs in _by_commit(ordered)],
        sorted(changes, key=lambda each: (each.date, each.commit, each.what)),
        newest.suspect(share),
        any(each.is_long for each in tested),
        *(last.basis, last.unit, last.device, last.torch),
        list(left_out),
    )


def _key(entry: HistoryEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, name) for name in CIRCUMSTANCES)


def _by_commit(ordered: Sequence[HistoryEntry]) -> Iterator[list[HistoryEntry]]:
    """The runs of each commit under the same circumstances."""
    for _, runs in groupby(ordered, key=lambda each: each.commit):
        alike = dict[tuple[object, ...], list[HistoryEntry]]()
        for run in runs:
            alike.setdefault(_key(run), []).append(run)
        yield from alike.values()


def _row(runs: Sequence[HistoryEntry]) -> HistoryRow:
    medians = [_median(run) for run in runs]
    times = medians if len(runs) > 1 else runs[0].times_ns
    last = runs[-1]
    counts = last.kernels, len(last.fusions), last.peak_bytes
    return HistoryRow(runs[0].commit, runs[0].date, len(runs), *middle(times), *counts)


def _median(run: HistoryEntry) -> float:
    return statistics.median(run.times_ns)


def _counted_changes(ordered: Sequence[HistoryEntry]) -> Iterator[HistoryChange]:
    """What is exact: counts, memory, and what a run was measured with."""
    latest = dict[tuple[object, ...], HistoryEntry]()
    before: HistoryEntry | None = None
    for runs in _by_commit(ordered):
        now = runs[-1]
        old = latest.get(_key(now))
        if old is None and before is not None:
            for name in CIRCUMSTANCES:
                circumstances = getattr(before, name), getattr(now, name)
                if circumstances[0] != circumstances[1]:
                    yield HistoryChange(name, now.commit, now.date, *circumstances)
        if (old := old or before) is not None:
            yield from _other_counts(old, now)
        latest[_key(now)] = before = now


def _other_counts(a: HistoryEntry, b: HistoryEntry) -> Iterator[HistoryChange]:
    if a.kernels != b.kernels:
        yield HistoryChange("kernels", b.commit, b.date, a.kernels, b.kernels)
    old, new = Counter(a.fusions), Counter(b.fusions)
    if old != new:
        lost = [f"lost: {each}" for each in sorted((old - new).elements())]
        won = [f"new: {each}" for each in sorted((new - old).elements())]
        sizes = float(len(a.fusions)), float(len(b.fusions))
        yield HistoryChange("fusions", b.commit, b.date, *sizes, details=[*lost, *won])
    if a.peak_bytes is None or b.peak_bytes is None:
        return
    if abs(a.peak_bytes - b.peak_bytes) > MEMORY * max(a.peak_bytes, b.peak_bytes):
        ratio = b.peak_bytes / a.peak_bytes if a.peak_bytes else None
        yield HistoryChange("memory", b.commit, b.date, a.peak_bytes, b.peak_bytes, ratio)


class _Series(Struct, frozen=True):
    """Runs to be compared by time; a change lies before one of `splits`, where a commit begins."""

    runs: list[HistoryEntry]
    ns: Floats
    splits: list[int]

    @classmethod
    def of(cls, runs: list[HistoryEntry]) -> _Series:
        begins = [at for at in range(1, len(runs)) if runs[at].commit != runs[at - 1].commit]
        return cls(runs, np.array([_median(run) for run in runs]), begins)

    @property
    def is_long(self) -> bool:
        """Whether a change could be found."""
        return bool(_inside(self.splits, 0, len(self.runs)))

    def cuts(self, alpha: float) -> list[int]:
        """Where the step time changed."""
        found, waiting = list[int](), [(0, len(self.runs))]
        while waiting:
            begin, end = waiting.pop()
            at = _cut_in(self.ns[begin:end], _inside(self.splits, begin, end), alpha)
            if at is not None:
                found.append(begin + at)
                waiting += [(begin, begin + at), (begin + at, end)]
        return sorted(found)

    def changes(self, alpha: float) -> Iterator[HistoryChange]:
        """Each change of the step time with its size and place."""
        cuts = self.cuts(alpha)
        for begin, at, end in zip([0, *cuts], cuts, [*cuts[1:], len(self.runs)], strict=False):
            a, b = self.ns[begin:at], self.ns[at:end]
            ratio, low, high = _ratio(a, b)
            if abs(ratio - 1) < LEAST:
                continue
            splits = _inside(self.splits, begin, end)
            first, last = (self.runs[begin + place].commit for place in _places(a, b, splits))
            times = float(np.median(a)), float(np.median(b))
            run = self.runs[at]
            yield HistoryChange(
                "step time", run.commit, run.date, *times, ratio, low, high, first, last
            )

    def suspect(self, alpha: float) -> HistoryChange | None:
        """The last commit, where its runs are too few to decide and lie further from all earlier
        ones than these from each other.
        """
        if not self.splits:
            return None
        begin = ([0, *self.cuts(alpha)])[-1]
        before, after = self.ns[begin : self.splits[-1]], self.ns[self.splits[-1] :]
        if len(after) >= SIDE or len(before) < 3:  # runs before a last one that may be suspected
            return None
        room = max(np.ptp(before), LEAST * before.max())
        if not (after > before.max() + room).all() and not (after < before.min() - room).all():
            return None
        run, times = self.runs[self.splits[-1]], (float(np.median(before)), float(np.median(after)))
        return HistoryChange("step time", run.commit, run.date, *times, times[1] / times[0])


def _inside(splits: Sequence[int], begin: int, end: int) -> list[int]:
    """The places with enough runs on both sides, counted from `begin`."""
    return [at - begin for at in splits if begin + SIDE <= at <= end - SIDE]


def _cut_in(ns: Floats, splits: Sequence[int], alpha: float) -> int | None:
    """The place that random orders of the same runs do not explain; None without one."""
    if not splits:
        return None
    ranks, places = _ranks(ns), np.array(splits)
    sums = _rank_sums(ranks[None, :], places)[0]
    drawn = np.random.default_rng(len(ns)).permuted(np.tile(ranks, (ORDERS, 1)), axis=1)
    reached = int((_rank_sums(drawn, places).max(axis=1) >= sums.max() - 1e-9).sum())
    return splits[int(sums.argmax())] if (1 + reached) / (1 + ORDERS) < alpha else None


def _ranks(ns: Floats) -> Floats:
    """From 1; equal times share the mean of theirs."""
    ordered = np.sort(ns)
    last: Floats = (np.searchsorted(ordered, ns) + np.searchsorted(ordered, ns, "right") + 1) / 2
    return last


def _rank_sums(rows: Floats, places: NDArray[np.int64]) -> Floats:
    """For each row and place: how far the rank sum before it is from the mean, over its spread."""
    count = rows.shape[1]
    apart = np.cumsum(rows, axis=1)[:, places - 1] - places * (count + 1) / 2
    scaled: Floats = np.abs(apart) / np.sqrt(places * (count - places))
    return scaled


def _ratio(a: Floats, b: Floats) -> tuple[float, float, float]:
    """How many times longer b is (Hodges and Lehmann), with the interval of nineteen in twenty."""
    pairs = np.sort((b[:, None] / a[None, :]).ravel())
    spread = 1.96 * sqrt(len(pairs) * (len(a) + len(b) + 1) / 12)
    drop = max(int(len(pairs) / 2 - spread), 0)
    return float(np.median(pairs)), float(pairs[drop]), float(pairs[-1 - drop])


def _places(a: Floats, b: Floats, splits: Sequence[int]) -> tuple[int, int]:
    """The first and last place of a change, by runs drawn again from before and after."""
    draw, places = np.random.default_rng(len(a) + len(b)), np.array(splits)
    rows = np.hstack([draw.choice(side, (DRAWS, len(side))) for side in (a, b)])
    found = places[_rank_sums(np.stack([_ranks(row) for row in rows]), places).argmax(axis=1)]
    first, last = np.quantile(found, [0.025, 0.975], method="nearest")
    return int(first), int(last)
