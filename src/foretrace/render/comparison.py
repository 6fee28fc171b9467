"""A comparison for people: sections of bullets and tables, drawn for a terminal (100 columns) or as
Markdown.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foretrace.comparison.comparison import Comparison
from foretrace.comparison.kernels import KernelRow
from foretrace.comparison.launched import Kernel
from foretrace.comparison.measure import Measured
from foretrace.comparison.ops import OpRow
from foretrace.comparison.side import Side
from foretrace.comparison.wording import called
from foretrace.render.safe import markdown, plain
from foretrace.render.section import WIDTH
from foretrace.render.table import shorten, table
from foretrace.units import DASH, count_text, percent_text, ratio_text, time_text

MOST_COLUMNS = 4  # traces beside A that fit as columns
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Section:
    """A title with lines, or with a table; columns in `left` hold words."""

    title: str
    lines: Sequence[str] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    left: Sequence[int] = (0,)


def comparison_text(found: Comparison, top: int) -> str:
    """The page for a terminal; readable without colour."""
    return "\n\n".join(_drawn(section) for section in _sections(found, top))


def comparison_markdown(found: Comparison, top: int) -> str:
    """The page as Markdown; every name is escaped."""
    return "\n\n".join(_marked(section) for section in _sections(found, top))


def _drawn(section: Section) -> str:
    parts = [plain(section.title)] if section.title else []
    parts += [
        textwrap.fill(
            plain(line),
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
        for line in section.lines
    ]
    if section.rows:
        parts.append(table(section.head, section.rows, left=section.left, width=WIDTH))
    return "\n".join(parts)


def _marked(section: Section) -> str:
    parts = [f"## {markdown(section.title)}\n"] if section.title else []
    parts += [f"- {markdown(line)}" for line in section.lines]
    if section.rows:
        parts.append("| " + " | ".join(markdown(cell) or " " for cell in section.head) + " |")
        parts.append(
            "|"
            + "|".join(":---" if at in section.left else "---:" for at in range(len(section.head)))
            + "|"
        )
        parts += ["| " + " | ".join(markdown(cell) for cell in row) + " |" for row in section.rows]
    return "\n".join(parts)


def _sections(found: Comparison, top: int) -> list[Section]:
    every = (found, *found.others)
    sides = (found.a, *(each.b for each in every))
    sections = [
        Section("", [_heading(letter, side) for letter, side in zip(LETTERS, sides, strict=False)])
    ]
    warnings = [
        line
        for letter, side in zip(LETTERS, sides, strict=False)
        for line in _warnings(letter, side)
    ]
    sections += (
        [Section("Data was lost: a difference below may be a loss and no change", warnings)]
        if warnings
        else []
    )
    sections.append(_quantities(every))
    for letter, each in zip(LETTERS[1:], every, strict=False):
        sections += _pair(each, letter, f" ({letter} against A)" if found.others else "", top)
    return [section for section in sections if section.lines or section.rows]


def _heading(letter: str, side: Side) -> str:
    about, repeats = side.trace.about, side.repeats
    count = len(repeats.spans)
    plural = "s" if count != 1 else ""
    what = {
        "region": f"call{plural} of {side.unit.name}",
        "step": f"step{plural}",
        "trace": "recording",
    }[side.unit.kind]
    odd = f", {repeats.alike} of them with the kernels compared" if repeats.alike < count else ""
    idle = f", {repeats.idle} more launched nothing" if repeats.idle else ""
    rank = f", rank {about.rank}" if about.rank is not None else ""
    return (
        f"{letter}: {side.trace.path} · {about.device or 'no GPU named'}{rank} · {count} "
        f"{what}{odd}{idle}"
    )


def _warnings(letter: str, side: Side) -> list[str]:
    return [
        f"! {letter} {note.code} ({count_text(note.count)}): {note.text}"
        for note in side.trace.ledger.banner
    ]


def _quantities(every: Sequence[Comparison]) -> Section:
    times = {name: [time(each) for each in every] for name, time in _TIMES.items()}
    if all(value.saved is None for value in times[_BARE]):
        del times[_BARE]
    rows = [[name, *_cells(values, time_text, noisy=True)] for name, values in times.items()]
    rows += [
        [name, *_cells([count(each) for each in every], count_text, noisy=False)]
        for name, count in _COUNTS.items()
    ]
    title = {"region": "Per call", "step": "Per step", "trace": "In the whole recording"}[
        every[0].unit.kind
    ]
    if len(every) == 1:
        return Section(title, head=["", "A", "B", "B/A", "noise", ""], rows=rows, left=(0, 5))
    heads = [cell for letter in LETTERS[1 : len(every) + 1] for cell in (letter, f"{letter}/A")]
    if len(every) > MOST_COLUMNS:
        return _one_row_each(every, title)
    return Section(f"{title} (~ inside the noise)", head=["", "A", *heads], rows=rows)


def _one_row_each(every: Sequence[Comparison], title: str) -> Section:
    """The same turned around, for more traces than columns fit."""
    times, first = list(_TIMES.values())[:3], every[0]
    rows = [
        [
            "A",
            *(cell for time in times for cell in (time_text(time(first).a), "")),
            count_text(len(first.a.kernels)),
        ]
    ]
    for letter, each in zip(LETTERS[1:], every, strict=False):
        cells = [
            cell
            for time in times
            for cell in _cells([time(first), time(each)], time_text, noisy=True)[3:]
        ]
        rows.append([letter, *cells, count_text(len(each.b.kernels))])
    head = ["", *(cell for name in list(_TIMES)[:3] for cell in (name, "/A")), "kernels"]
    return Section(f"{title} (~ inside the noise)", head=head, rows=rows)


def _cells(
    values: Sequence[Measured], text: Callable[[float | None], str], *, noisy: bool
) -> list[str]:
    first = values[0]
    if len(values) == 1:
        return [
            text(first.a),
            text(first.b),
            ratio_text(first.ratio),
            percent_text(first.noise) if noisy else "",
            _verdict(first) if noisy else "",
        ]
    cells = [text(first.a)]
    for value in values:
        inside = " ~" if noisy and value.beyond is False and value.ratio != 1 else ""
        cells += [text(value.b), ratio_text(value.ratio) + inside]
    return cells


def _verdict(value: Measured) -> str:
    if value.ratio is None or value.ratio == 1:
        return "same" if value.ratio == 1 else ""
    if value.beyond is None:
        return "no verdict: one repeat"
    return ("more" if value.ratio > 1 else "less") if value.beyond else "inside the noise"


_BARE = "wall, no profiler"  # known where both traces have a run record
_TIMES: dict[str, Callable[[Comparison], Measured]] = {
    "GPU time": lambda found: found.gpu_ns,
    "host time": lambda found: found.cpu_ns,
    "wall time": lambda found: found.wall_ns,
    "GPU idle": lambda found: found.idle_ns,
    _BARE: lambda found: found.bare_wall_ns,
}
_COUNTS: dict[str, Callable[[Comparison], Measured]] = {
    "kernels": lambda found: Measured(len(found.a.kernels), len(found.b.kernels), None),
    "memcpys": lambda found: Measured(found.a.memcpys, found.b.memcpys, None),
    "memsets": lambda found: Measured(found.a.memsets, found.b.memsets, None),
    "launches": lambda found: Measured(found.a.launches, found.b.launches, None),
}


def _pair(found: Comparison, letter: str, which: str, top: int) -> list[Section]:
    return [
        Section(f"Changed{which}", found.changed or ["nothing"]),
        Section(f"Unchanged{which}", found.unchanged or ["nothing"]),
        _kernels(found, letter, which, top),
        _ops(found, letter, which, top),
        Section(f"Worth it?{which}", [found.worth.text]),
    ]


def _kernels(found: Comparison, letter: str, which: str, top: int) -> Section:
    """Each kernel once: `=` same, `~` changed (the new one below), `-` removed, `+` added; times of
    one launch.
    """
    rows: list[list[str]] = []
    groups = (
        ("=", found.kernels.same),
        ("~", found.kernels.changed),
        ("-", found.kernels.removed),
        ("+", found.kernels.added),
    )
    for sign, members in groups:
        ranked = sorted(members, key=lambda row: -max(row.ns.a or 0, row.ns.b or 0) * row.count)
        for row in ranked[:top]:
            rows += _kernel(sign, row)
        rows += [["", f"… and {len(ranked) - top} more", *[""] * 5]] if len(ranked) > top else []
    head = ["", "kernel", "op", "count", "A", letter, f"{letter}/A"]
    return Section(
        f"Kernels per {found.unit.word}{which}: = same, ~ changed, - removed, + added",
        head=head,
        rows=rows,
        left=(1, 0, 2),
    )


def _kernel(sign: str, row: KernelRow) -> list[list[str]]:
    kernel, ns = row.kernel, row.ns
    a, b = (time_text(value) if value is not None else "" for value in (ns.a, ns.b))
    first = [sign, called(kernel), _op(kernel), count_text(row.count), a]
    ratio = ratio_text(ns.ratio) if ns.ratio is not None else ""
    if sign != "~" or row.b is None:
        return [[*first, b, ratio]]
    new = called(row.b) if row.b.name != kernel.name else ", ".join(row.why)
    return [
        [*first, "", ""],
        ["", f"> {new}", _op(row.b) if row.b.op != kernel.op else "", "", "", b, ratio],
    ]


def _op(kernel: Kernel) -> str:
    """The op, cut so that the kernel keeps its room; Inductor's ops are named after their kernels."""
    return DASH if kernel.op is None else "" if kernel.op == kernel.name else shorten(kernel.op, 28)


def _ops(found: Comparison, letter: str, which: str, top: int) -> Section:
    """Ops whose calls differ or that launch kernels; the largest difference in host and GPU time
    first.
    """
    rows = [
        row
        for row in (*found.ops.removed, *found.ops.added, *found.ops.same)
        if row.a != row.b or row.a_gpu_ns or row.b_gpu_ns
    ]
    ranked = sorted(rows, key=lambda row: -_weight(row))
    cells = [
        [
            row.name,
            count_text(row.a),
            count_text(row.b),
            _spent(row.a_ns),
            _spent(row.b_ns),
            _spent(row.a_gpu_ns),
            _spent(row.b_gpu_ns),
        ]
        for row in ranked[:top]
    ]
    cells += [[f"… and {len(ranked) - top} more", *[""] * 6]] if len(ranked) > top else []
    head = [
        "op",
        *(
            f"{what} {which_trace}"
            for what in ("calls", "host", "GPU")
            for which_trace in ("A", letter)
        ),
    ]
    return Section(
        f"Ops per {found.unit.word}{which}: calls, host time without callees, time of their "
        "kernels",
        head=head,
        rows=cells,
    )


def _weight(row: OpRow) -> float:
    return abs(row.a_ns - row.b_ns) + max(row.a_gpu_ns, row.b_gpu_ns)


def _spent(ns: float) -> str:
    return time_text(ns) if ns else ""
