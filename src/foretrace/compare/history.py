"""`foretrace history --json`: a program over its commits, and where it changed.

Counts are exact, so every difference is a change. A run counts once in time, with its median. In a
series of runs under one set of circumstances, the place between two commits with the largest rank
sum is a change where fewer than `ALPHA` of the random orders of the same runs reach it; the parts
before and after are searched again. Ranks and orders assume nothing about the noise, so a history
without a change has a false one in about 4% (docs/history.md).

A folder of a history has one file for each run, which is never changed: two jobs that write at once
write two files.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from math import sqrt
from pathlib import Path
from stat import S_ISREG
from typing import Annotated

import numpy as np
from msgspec import DecodeError, Meta, Struct, json
from numpy.typing import NDArray

from foretrace.base.errors import UsageError
from foretrace.base.files import write_bytes
from foretrace.base.tables import TEXT, WORDS, Column, Line, Table, fitted
from foretrace.base.units import bytes_text, change_text, count_text, plural, ratio_text
from foretrace.check.evidence import Evidence
from foretrace.check.holding import counted
from foretrace.check.windows import span_window
from foretrace.compare.measure import middle
from foretrace.compare.sides import Repeats, choose, repeats
from foretrace.read.run_record import Nanoseconds
from foretrace.trace.trace import Trace

SCHEMA = 1
MOST_BYTES = 1 << 16  # of an entry: a thousand times and a hundred fusions fit
MOST_TIMES, MOST_FUSIONS = 100, 100
MOST_RUNS = 1000  # that one page is made of, the last ones
NO_PROFILER, GPU_TIME, PROFILED = "no profiler", "GPU time", "includes profiler overhead"
_DATE = r"^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z$"  # `$` alone lets a newline pass
_COMMIT = re.compile(r"[\w.-]{1,64}", re.ASCII)

Text = Annotated[str, Meta(max_length=200)]
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
ALPHA = 0.04
SIDE = 4  # runs: of eight in two halves, chance puts all slow ones last in 2.9% of the orders
ORDERS, DRAWS = 1999, 400
LEAST = 0.01  # of the step: less is nothing to act on, however sure
MEMORY = 0.01  # of the peak: the allocator rounds each block up
CIRCUMSTANCES = ("device", "torch", "basis", "unit")
BAR = 12  # characters of the longest step
FIRST_CHANGES = 8  # of the first screen, the last ones
DETAILS = 4  # of a change that are named
SHORT = 8  # characters that name a commit: rows of 80 have no room for more
TIME = "step time"

Floats = NDArray[np.float64]


class HistoryEntry(Struct, frozen=True):
    """One run of one commit, a file of the folder.

    `times_ns` are steps or blocks of steps, and `basis` says how they were measured. `unit` is what
    repeats: step, run, or the name of a region. `fusions` names what each fused kernel does.
    """

    commit: Annotated[str, Meta(min_length=1, max_length=64)]
    date: Annotated[str, Meta(pattern=_DATE, max_length=20)]
    times_ns: Annotated[list[Nanoseconds], Meta(min_length=1, max_length=MOST_TIMES)]
    basis: Text
    unit: Text
    kernels: Count | None
    fusions: Annotated[list[Text], Meta(max_length=MOST_FUSIONS)]
    peak_bytes: Count | None
    device: Text | None
    torch: Text | None
    schema: int = SCHEMA


class HistoryRow(Struct, frozen=True):
    """One commit: the median step with its interval over all its `runs`, and the counts of its
    last run.
    """

    commit: str
    date: str
    runs: int
    median_ns: float
    low_ns: float
    high_ns: float
    kernels: int | None
    fusions: int
    peak_bytes: int | None


class HistoryChange(Struct, frozen=True):
    """What differs from `commit` on.

    `what` is step time, kernels, fusions, memory, or what was measured with: device, torch, basis,
    unit. `before` and `after` are the medians or counts of both sides; of a step time, `ratio` has
    the interval `low` to `high`, and the change lies from commit `first` to commit `last`.
    `details` names what came and went.
    """

    what: str
    commit: str
    date: str
    before: float | str | None
    after: float | str | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    first: str = ""
    last: str = ""
    details: list[str] = []


class HistoryDocument(Struct, frozen=True):
    """Commits in their order, and what changed.

    `suspect` is a last commit far outside of all before it, with too few runs to decide.
    `decidable` says whether there are enough runs to find a change of the step time at all.
    `basis` and `unit` are those of the last run; `left_out` says which files are no entries.
    """

    rows: list[HistoryRow]
    changes: list[HistoryChange]
    suspect: HistoryChange | None
    decidable: bool
    basis: str
    unit: str
    device: str | None
    torch: str | None
    left_out: list[str]
    schema: int = SCHEMA


DOCUMENTS = {"history": HistoryDocument}


def add_entry(folder: Path, entry: HistoryEntry) -> Path:
    """Write one entry; its name has the date, the commit and a hash, so nothing is replaced."""
    if not _COMMIT.fullmatch(entry.commit):
        raise UsageError(f"--commit {entry.commit!r}: give a hash or a tag: letters, digits, . _ -")
    content = json.encode(entry)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = re.sub(r"[-:]", "", entry.date)
    name = f"{stamp}-{entry.commit[:12]}-{sha256(content).hexdigest()[:8]}.json"
    write_bytes(folder / name, content)
    return folder / name


def read_entries(folder: Path) -> tuple[list[HistoryEntry], list[str]]:
    """The last entries by date, and a line for each file that is none."""
    if not folder.is_dir():
        hint = "foretrace history FOLDER --add TRACE --commit NAME makes it"
        raise UsageError(f"{folder}: no such folder; {hint}")
    found, left_out = list[tuple[str, str, HistoryEntry]](), list[str]()
    for path in sorted(folder.glob("*.json")):
        try:
            entry = _read(path)
            found.append((entry.date, path.name, entry))
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else str(problem)
            left_out.append(f"{path.name}: {why}")
    found.sort(key=lambda each: each[:2])
    if more := len(found) - MOST_RUNS:
        left_out += [f"{more:,} older runs: a page has {MOST_RUNS:,}"] if more > 0 else []
    if not found:
        why = f": {left_out[0]}" if left_out else "; add a run with --add TRACE"
        raise UsageError(f"{folder}: no entry of a history in it{why}")
    return [entry for *_, entry in found[-MOST_RUNS:]], left_out


def _read(path: Path) -> HistoryEntry:
    found = path.stat()
    if not S_ISREG(found.st_mode):  # a pipe would wait for ever, a device has no end
        raise ValueError("not a file")
    if found.st_size > MOST_BYTES:
        raise ValueError("too large for an entry")
    content = path.read_bytes()
    try:
        newer = json.decode(content, type=_Versioned).schema
        if newer > SCHEMA:
            raise ValueError(f"schema {newer} of a newer foretrace; update this one")
        return json.decode(content, type=HistoryEntry)
    except (DecodeError, RecursionError) as problem:
        raise ValueError(f"not an entry of a history: {problem}") from None


class _Versioned(Struct):
    schema: int


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


_COLUMNS = (
    Column("step", "median_ns"),
    Column("interval", lambda row: change_text(row.low_ns, row.high_ns), TEXT),
    Column("kernels", "kernels"),
    Column("fusions", "fusions"),
    Column("memory", "peak_bytes"),
)


def page(found: HistoryDocument, *, every: bool = False, bars: bool = False) -> list[Table]:
    """All changes and commits, or as many of the last ones as the first screen has room for.

    With `bars` each step has one: a terminal is too narrow for them.
    """
    if every:
        return _tables(found, len(found.rows), len(found.changes), bars=bars)
    return fitted(lambda rows: _tables(found, rows, FIRST_CHANGES), len(found.rows))


def _tables(found: HistoryDocument, most: int, changes: int, *, bars: bool = False) -> list[Table]:
    """What changed, then the last commits, the newest at the end; a mark is beside those that
    changed something.
    """
    shown = found.changes[max(len(found.changes) - changes, 0) :]
    hidden = len(found.changes) - len(shown)
    lines = [Line("EARLIER", f"{plural(hidden, 'change')} (--all)")] if hidden else []
    lines += map(_line, shown)
    # where no line says that the step time changed: whether it could have
    if found.suspect is not None:
        said = f"{_moved(found.suspect)} at {_commit(found.suspect)}, far outside of all runs"
        lines.append(Line("INCONCLUSIVE", f"{said} before it; run it again: four runs decide"))
    elif any(change.what == TIME for change in found.changes):
        pass
    elif not found.decidable:
        said = "step time: a change needs four runs before it and four after it"
        lines.append(Line("INCONCLUSIVE", said))
    else:
        lines.append(Line("SAME", "step time: no change beyond the noise between runs"))
    runs = sum(row.runs for row in found.rows)
    commits = len({row.commit for row in found.rows})
    on = f"{found.device or 'CPU'} · torch {found.torch or 'unknown'}"
    times = f"time per {found.unit}, {found.basis}"
    where = f"{plural(commits, 'commit')}, {plural(runs, 'run')} · {on} · {times}"
    longest = max(row.median_ns for row in found.rows)
    changed = {change.commit for change in found.changes}
    several = any(row.runs > 1 for row in found.rows)
    step, *others = _COLUMNS
    columns = [
        Column("commit", lambda row: row.commit[:SHORT], WORDS),
        Column("date", lambda row: row.date[:10], TEXT),
        *([Column("runs", "runs")] if several else []),
        step,
        *([Column("", lambda row: _bar(row.median_ns / longest), WORDS)] if bars else []),
        *others,
        Column(" ", lambda row: "<" if row.commit in changed else " ", TEXT),
    ]
    before = len(found.rows) - most
    more = f"{plural(before, 'earlier row')} (--all)" if before else ""
    head = Table(lines=[Line("", where), *lines])
    return [head, *([Table("", columns, found.rows[before:], more)] if most else [])]


def _bar(part: float) -> str:
    return "█" * max(round(BAR * part), 1)


def _line(change: HistoryChange) -> Line:
    at = _commit(change)
    if change.what == TIME:
        label = "SLOWER" if (change.ratio or 1) > 1 else "FASTER"
        interval = f", interval {ratio_text(change.low)} to {ratio_text(change.high)}"
        if change.first != change.last:
            at += f", or between {change.first[:SHORT]} and {change.last[:SHORT]}"
        return Line(label, f"{_moved(change, interval)} since {at}")
    label = "TIMES" if change.what == "basis" else change.what.upper()
    details = "; ".join(change.details[:DETAILS])
    if more := len(change.details) - len(change.details[:DETAILS]):
        details += f"; and {more:,} more (--json)"
    before, after = change.before, change.after
    if isinstance(before, str) or isinstance(after, str):
        sides = f"{before or 'unknown'} to {after or 'unknown'}, so times are not compared"
    else:
        sides = change_text(before, after, bytes_text if change.what == "memory" else count_text)
    return Line(label, f"{sides} at {at}" + (f" ({details})" if details else ""))


def _moved(change: HistoryChange, interval: str = "") -> str:
    before, after = (side for side in (change.before, change.after) if not isinstance(side, str))
    return f"{change_text(before, after)} ({ratio_text(change.ratio)}{interval})"


def _commit(change: HistoryChange) -> str:
    return f"{change.commit[:SHORT]} ({change.date[:10]})"
