"""A program over its commits, for people: what changed first, then a row for each commit."""

from __future__ import annotations

from foretrace.base.terminal import Column, Section, fitted, listing
from foretrace.base.units import bytes_text, change_text, count_text, plural, ratio_text
from foretrace.compare.history_documents import HistoryChange, HistoryDocument, HistoryRow

BAR = 12  # characters of the longest step
FIRST_CHANGES = 8  # of the first screen, the last ones
DETAILS = 4  # of a change that are named
SHORT = 8  # characters that name a commit: rows of 80 have no room for more
TIME = "step time"


def page(found: HistoryDocument, *, every: bool = False, bars: bool = False) -> list[Section]:
    """All changes and commits, or as many of the last ones as the first screen has room for.

    With `bars` each step has one: a terminal is too narrow for them.
    """
    if every:
        return _sections(found, len(found.rows), len(found.changes), bars=bars)
    return fitted(lambda rows: _sections(found, rows, FIRST_CHANGES), len(found.rows))


def _sections(
    found: HistoryDocument, rows: int, changes: int, *, bars: bool = False
) -> list[Section]:
    shown = found.changes[max(len(found.changes) - changes, 0) :]
    lines = [_line(change) for change in shown]
    if hidden := len(found.changes) - len(shown):
        lines.insert(0, ("EARLIER", f"{plural(hidden, 'change')} (--all)"))
    # where no line says that the step time changed: whether it could have
    if found.suspect is not None:
        said = f"{_times(found.suspect)} at {_commit(found.suspect)}, far outside of all runs"
        lines.append(("INCONCLUSIVE", f"{said} before it; run it again: four runs decide"))
    elif any(change.what == TIME for change in found.changes):
        pass
    elif not found.decidable:
        said = "step time: a change needs four runs before it and four after it"
        lines.append(("INCONCLUSIVE", said))
    else:
        lines.append(("SAME", "step time: no change beyond the noise between runs"))
    runs = sum(row.runs for row in found.rows)
    commits = len({row.commit for row in found.rows})
    on = f"{found.device or 'CPU'} · torch {found.torch or 'unknown'}"
    times = f"time per {found.unit}, {found.basis}"
    where = f"{plural(commits, 'commit')}, {plural(runs, 'run')} · {on} · {times}"
    head = Section("", [where], labelled=lines)
    return [head, _table(found, rows, bars)] if rows else [head]


def _line(change: HistoryChange) -> tuple[str, str]:
    at = _commit(change)
    if change.what == TIME:
        label = "SLOWER" if (change.ratio or 1) > 1 else "FASTER"
        sure = f"{ratio_text(change.low)} to {ratio_text(change.high)}"
        if change.first != change.last:
            at += f", or between {change.first[:SHORT]} and {change.last[:SHORT]}"
        return label, f"{_times(change, sure)} since {at}"
    label = "TIMES" if change.what == "basis" else change.what.upper()
    details = "; ".join(change.details[:DETAILS])
    if more := len(change.details) - len(change.details[:DETAILS]):
        details += f"; and {more:,} more (--json)"
    before, after = change.before, change.after
    if isinstance(before, str) or isinstance(after, str):
        sides = f"{before or 'unknown'} to {after or 'unknown'}, so times are not compared"
    else:
        sides = change_text(before, after, bytes_text if change.what == "memory" else count_text)
    return label, f"{sides} at {at}" + (f" ({details})" if details else "")


def _times(change: HistoryChange, sure: str = "") -> str:
    before, after = (side for side in (change.before, change.after) if not isinstance(side, str))
    ratio = f"{ratio_text(change.ratio)}, interval {sure}" if sure else ratio_text(change.ratio)
    return f"{change_text(before, after)} ({ratio})"


def _commit(change: HistoryChange) -> str:
    return f"{change.commit[:SHORT]} ({change.date[:10]})"


def _table(found: HistoryDocument, top: int, bars: bool) -> Section:
    """The last commits, the newest at the end; a mark is beside those that changed something."""
    longest = max(row.median_ns for row in found.rows)
    changed = {change.commit for change in found.changes}

    def bar(row: HistoryRow) -> str:
        return "█" * max(round(BAR * row.median_ns / longest), 1)

    several = any(row.runs > 1 for row in found.rows)
    columns: dict[str, Column] = {
        "commit": lambda row: row.commit[:SHORT],
        "date": lambda row: row.date[:10],
        **({"runs": "runs"} if several else {}),
        "step": "median_ns",
        **({"": bar} if bars else {}),
        "interval": lambda row: change_text(row.low_ns, row.high_ns),
        "kernels": "kernels",
        "fusions": "fusions",
        "memory": "peak_bytes",
        " ": lambda row: "<" if row.commit in changed else " ",
    }
    rows = found.rows[len(found.rows) - top :]
    before = len(found.rows) - len(rows)
    after = f"{plural(before, 'earlier row')} (--all)" if before else ""
    left = [at for at, name in enumerate(columns) if name.strip() in ("commit", "")]
    return listing("", rows, columns, left=left, after=after)
