"""What Nsight Compute exports: from CSV text to launches with counters."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from math import isfinite

from msgspec import Struct

from foretrace.base.errors import TraceError
from foretrace.base.patterns import regex
from foretrace.base.units import plural

_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_TIME = {
    "ns": 1.0, "nsecond": 1.0, "nanosecond": 1.0,
    "us": 1e3, "usecond": 1e3, "microsecond": 1e3,
    "ms": 1e6, "msecond": 1e6, "millisecond": 1e6,
    "s": 1e9, "sec": 1e9, "second": 1e9,
}  # fmt: skip
# `Kinst` is a thousand instructions: the words that a prefix can precede.
_COUNTED = ("byte", "sector", "inst", "cycle", "request", "wavefront", "pass", "op", "warp")


def factor(unit: str) -> float | None:
    """What a value in this unit is multiplied by; None for a unit that is not known.

    A unit without a factor of its own (`%`, `block`, a rate) is as it is written.
    """
    word = unit.strip().lower()
    if word in _TIME:
        return _TIME[word]
    for counted in _COUNTED:
        for form in (counted, f"{counted}s"):
            if word.endswith(form):
                return _PREFIX.get(word.removesuffix(form))
    return 1.0 if word in ("", "%") else None


_SPACES = "\u00a0\u202f '’"  # what other locales put between groups of digits
_SHAPE = regex(rf"[+-]?\d[\d.,{_SPACES}]*(?:[eE][+-]?\d+)?")
_GROUPS = {mark: re.compile(rf"[+-]?\d{{1,3}}(?:\{mark}\d{{3}})+") for mark in ",."}
_MISSING = frozenset({"", "n/a", "nan", "-nan", "inf", "-inf", "none", "no data"})


def number(text: str, decimal: str = ".") -> float | None:
    """The number, written with this decimal mark; None for a missing value or text."""
    text = text.strip()
    if text.lower() in _MISSING or not _SHAPE.fullmatch(text):
        return None
    for mark in (*_SPACES, "." if decimal == "," else ","):
        text = text.replace(mark, "")
    try:
        value = float(text.replace(decimal, "."))
    except ValueError:  # two decimal marks
        return None
    return value if isfinite(value) else None


def decimal_of(cells: Iterable[str]) -> str | None:
    """The decimal mark of these numbers; None where they contradict each other."""
    found = {mark for cell in cells if (mark := _decimal(cell.strip()))}
    return None if len(found) > 1 else next(iter(found), ".")


def _decimal(cell: str) -> str:
    """The mark of the decimals, where this number leaves no choice; else ""."""
    if not _SHAPE.fullmatch(cell):
        return ""
    last = max(cell.rfind(","), cell.rfind("."))
    if last < 0:
        return ""
    mark, other = (",", ".") if cell[last] == "," else (".", ",")
    if other in cell:
        return mark if cell.count(mark) == 1 else ""
    if cell.count(mark) > 1:
        return other if _GROUPS[mark].fullmatch(cell) else ""
    return "" if _GROUPS[mark].fullmatch(cell) else mark


FIRST = "ID"
_NAMES = ("Kernel Name", "Function Name")
_LONG = ("Metric Name", "Metric Unit", "Metric Value")
_WHOLE = regex(r"[0-9]{1,18}")
# What the counters of a launch are joined and added by; a metric is named `unit__what`.
_IS_METRIC = regex(r"[a-z0-9]+__[a-z0-9_]+(?:\.\w+)*")
LONGEST = 1 << 22  # characters of a cell: an instruction mix has some thousand
_HINT = "export one with `ncu --import REPORT --csv --page raw --print-units base`"


class CounterLaunch(Struct, frozen=True):
    """One kernel launch as Nsight Compute profiled it: metrics in bytes, nanoseconds or counts."""

    number: int
    process: str
    device: str
    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    metrics: dict[str, float]

    @property
    def passes(self) -> int:
        """How often the kernel ran to be counted; 0 where the export does not say."""
        return int(self.metrics.get("profiler__replayer_passes", 0))


class CounterExport(Struct, frozen=True):
    """The launches of a file in their order, and what a reader should know."""

    path: str
    launches: tuple[CounterLaunch, ...]
    notes: tuple[str, ...] = ()


class _Exported(Struct):
    """One table of a file: its head, units by column ({} on the page `details`), and rows."""

    head: list[str]
    units: dict[str, str]
    rows: list[dict[str, str]]


def read_export(text: str, path: str) -> CounterExport:
    """The launches in the text of an export; raises a `TraceError` where it has no launch."""
    notes: list[str] = []
    parts = list(_parts(text, path, notes))
    if not parts:
        raise TraceError("E_NO_COUNTERS", path, "no CSV of Nsight Compute in it", hint=_HINT)
    decimal = decimal_of(
        row[name]
        for part in parts
        for name in part.head
        if name == _LONG[2] or _IS_METRIC.fullmatch(name)
        for row in part.rows
    )
    if decimal is None:
        message = "its numbers are written in two ways, with decimal commas and with points"
        raise TraceError("E_NUMBERS", path, message, hint="export it again with LC_ALL=C")
    units: dict[str, None] = {}
    negative: dict[str, None] = {}
    launches = [
        launch
        for part in parts
        for launch in _launches(
            part, path, notes, lambda row: _values(row, decimal, units, negative)
        )
    ]
    if not launches:
        raise TraceError("E_NO_COUNTERS", path, "it lists no kernel launch", hint=_HINT)
    for what, names in (("units that are not known", units), ("negative values", negative)):
        if names:
            notes.append(f"{path}: {what}, not read: {', '.join(names)}")
    return CounterExport(path, tuple(launches), tuple(notes))


def _parts(text: str, path: str, notes: list[str]) -> Iterator[_Exported]:
    """The tables of a file; a row that has another number of cells than its head is left out."""
    part: _Exported | None = None
    odd = 0
    csv.field_size_limit(LONGEST)
    reader = csv.reader(text.lstrip("\ufeff").replace("\0", "").splitlines())
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            odd += 1
            continue
        if row is None:
            break
        if row and row[0] == FIRST and any(name in row for name in _NAMES):
            if part is not None:
                yield part
            part = _Exported(row, {}, [])
        elif part is not None and len(row) == len(part.head):
            cells = dict(zip(part.head, row, strict=True))
            if not cells[FIRST].strip() and not part.rows:
                part.units = cells
            elif _WHOLE.fullmatch(cells[FIRST].strip()):
                part.rows.append(cells)
        elif part is not None and row and _WHOLE.fullmatch(row[0]):
            odd += 1
    if odd:
        notes.append(f"{path}: {plural(odd, 'row')} cannot be read and {_left(odd)} left out")
    if part is not None:
        yield part


def _left(count: int) -> str:
    return "is" if count == 1 else "are"


def _launches(
    part: _Exported,
    path: str,
    notes: list[str],
    values: Callable[[Iterable[tuple[str, str, str]]], Iterator[tuple[str, float]]],
) -> Iterator[CounterLaunch]:
    """One launch per number and process; rows of the page `details` are put together first."""
    is_long = all(name in part.head for name in _LONG)
    found: dict[tuple[str, ...], CounterLaunch] = {}
    repeated = 0
    for row in part.rows:
        key = (row[FIRST].strip(), row.get("Process ID", ""), row.get("Host Name", ""))
        name, unit, value = (row.get(column, "") for column in _LONG)
        wide = ((name, part.units.get(name, ""), value) for name, value in row.items())
        metrics = dict(values([(name, unit, value)] if is_long else wide))
        if key not in found:
            found[key] = _launch(row, metrics)
        elif is_long:
            found[key].metrics.update(metrics)
        else:
            repeated += 1
    if repeated:
        again = f"{plural(repeated, 'row')} {'repeats' if repeated == 1 else 'repeat'} the number"
        notes.append(f"{path}: {again} of an earlier launch and {_left(repeated)} left out")
    yield from found.values()


def _values(
    given: Iterable[tuple[str, str, str]],
    decimal: str,
    units: dict[str, None],
    negative: dict[str, None],
) -> Iterator[tuple[str, float]]:
    """The metrics that are used; `units` and `negative` get what cannot be read, each once."""
    for name, unit, text in given:
        # an export has hundreds of a card's attributes, and three values of most metrics
        other = name.startswith(("device__", "nvlink__", "numa__", "launch__"))
        if other or name.endswith((".min", ".max", ".avg")) or not _IS_METRIC.fullmatch(name):
            continue
        value, scale = number(text, decimal), factor(unit)
        if scale is None:
            units[unit] = None
        elif value is not None and value < 0:  # nothing is counted below zero
            negative[name] = None
        elif value is not None:
            yield name, value * scale


def _launch(row: dict[str, str], metrics: dict[str, float]) -> CounterLaunch:
    name = next(row[column] for column in _NAMES if column in row)
    return CounterLaunch(
        int(row[FIRST]),
        row.get("Process ID", ""),
        row.get("Device", ""),
        name.strip(),
        _extent(row.get("Grid Size", "")),
        _extent(row.get("Block Size", "")),
        metrics,
    )


def _extent(text: str) -> tuple[int, ...]:
    """`(528, 1, 1)` -> (528, 1, 1); () for a plain number of threads or nothing."""
    found = tuple(int(word) for word in _WHOLE.findall(text))
    return found if len(found) == 3 else ()
