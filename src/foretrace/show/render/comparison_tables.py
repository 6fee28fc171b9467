"""The tables of a comparison that are shown on demand: times and counts, kernels, ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foretrace.analyze.compare.comparison import Comparison
from foretrace.analyze.compare.kernels import KernelPair
from foretrace.analyze.compare.launched import Kernel
from foretrace.analyze.compare.measure import Change
from foretrace.analyze.compare.ops import OpPair
from foretrace.analyze.compare.side import Side
from foretrace.analyze.compare.wording import called
from foretrace.base.units import DASH, count_text, percent_text, ratio_text, time_text
from foretrace.show.render.terminal import Section, shorten

MOST_COLUMNS = 4  # traces beside A that fit as columns
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TITLES = {"region": "Per call", "step": "Per step", "trace": "In the whole recording"}
BARE = "wall, no profiler"  # known where both traces have a run record
TIMES: dict[str, Callable[[Comparison], Change]] = {
    "GPU time": lambda found: found.gpu_ns,
    "host, profiled": lambda found: found.cpu_ns,
    "wall, profiled": lambda found: found.wall_ns,
    "GPU idle": lambda found: found.idle_ns,
    BARE: lambda found: found.bare_wall_ns,
}
COUNTS: dict[str, Callable[[Side], int]] = {
    "kernels": lambda side: len(side.kernels),
    "memcpys": lambda side: side.memcpys,
    "memsets": lambda side: side.memsets,
    "launches": lambda side: side.launches,
}


def quantities(every: Sequence[Comparison]) -> Section:
    """Times and counts of each trace, and their ratio to A."""
    title = TITLES[every[0].unit.kind]
    if len(every) > MOST_COLUMNS:
        return _one_row_each(every, f"{title} (~ within the noise)")
    times = {name: [time(each) for each in every] for name, time in TIMES.items()}
    if all(value.saved is None for value in times[BARE]):
        del times[BARE]
    counts = {
        name: [Change(count(each.a), count(each.b)) for each in every]
        for name, count in COUNTS.items()
    }
    if len(every) == 1:
        rows = [[name, *_cells(each, time_text), *_noise(*each)] for name, each in times.items()]
        rows += [[name, *_cells(values, count_text), "", ""] for name, values in counts.items()]
        return Section(title, head=["", "A", "B", "B/A", "noise", ""], rows=rows, left=(0, 5))
    rows = [[name, *_cells(values, time_text, mark=" ~")] for name, values in times.items()]
    rows += [[name, *_cells(values, count_text)] for name, values in counts.items()]
    heads = [cell for letter in LETTERS[1 : len(every) + 1] for cell in (letter, f"{letter}/A")]
    return Section(f"{title} (~ within the noise)", head=["", "A", *heads], rows=rows)


def _one_row_each(every: Sequence[Comparison], title: str) -> Section:
    """The same turned around, for more traces than columns fit."""
    shown = {name: TIMES[name] for name in ("GPU time", "host, profiled", "wall, profiled")}
    base = [cell for time in shown.values() for cell in (time_text(time(every[0]).a), "")]
    rows = [["A", *base, count_text(len(every[0].a.kernels))]]
    for letter, each in zip(LETTERS[1:], every, strict=False):
        pairs = [_cells([time(each)], time_text, mark=" ~")[1:] for time in shown.values()]
        cells = [cell for pair in pairs for cell in pair]
        rows.append([letter, *cells, count_text(len(each.b.kernels))])
    head = ["", *(cell for name in shown for cell in (name, "/A")), "kernels"]
    return Section(title, head=head, rows=rows)


def _cells(
    values: Sequence[Change], text: Callable[[float | None], str], mark: str = ""
) -> list[str]:
    """A, then each other trace and its ratio to A; `mark` follows a ratio within the noise."""
    cells = [text(values[0].a)]
    for value in values:
        within = mark if value.beyond is False and value.ratio != 1 else ""
        cells += [text(value.b), ratio_text(value.ratio) + within]
    return cells


def _noise(value: Change) -> tuple[str, str]:
    """The noise, and what it makes of the change."""
    noise = percent_text(value.noise)
    if value.ratio is None or value.ratio == 1:
        return noise, "same" if value.ratio == 1 else ""
    if value.beyond is None:
        return noise, "inconclusive: one repeat"
    return noise, ("more" if value.ratio > 1 else "less") if value.beyond else "within the noise"


def kernels(found: Comparison, letter: str, which: str, top: int) -> Section:
    """Each kernel once; the new one below a changed one; times of one launch."""
    table, rows = found.kernels, list[list[str]]()
    signs = {"=": table.same, "~": table.changed, "-": table.removed, "+": table.added}
    for sign, members in signs.items():
        for row in sorted(members, key=lambda row: -row.total_ns)[:top]:
            rows += _kernel(sign, row)
        more = len(members) - top
        rows += [["", f"… and {more} more", *[""] * 5]] if more > 0 else []
    title = f"Kernels per {found.unit.word}{which}: = same, ~ changed, - removed, + added"
    head = ["", "kernel", "op", "count", "A", letter, f"{letter}/A"]
    return Section(title, head=head, rows=rows, left=(1, 0, 2))


def _kernel(sign: str, row: KernelPair) -> list[list[str]]:
    kernel, ns = row.kernel, row.ns
    a, b = (time_text(value) if value is not None else "" for value in (ns.a, ns.b))
    first = [sign, called(kernel.name, kernel.short), _op(kernel), count_text(row.count), a]
    ratio = ratio_text(ns.ratio) if ns.ratio is not None else ""
    if sign != "~" or row.b is None:
        return [[*first, b, ratio]]
    other = row.b.name != kernel.name
    new = called(row.b.name, row.b.short) if other else ", ".join(row.why)
    op = _op(row.b) if row.b.op != kernel.op else ""
    return [[*first, "", ""], ["", f"> {new}", op, "", "", b, ratio]]


def _op(kernel: Kernel) -> str:
    """The op, cut so that the kernel keeps its room; Inductor's ops have the kernels' names."""
    return DASH if kernel.op is None else "" if kernel.op == kernel.name else shorten(kernel.op, 28)


def ops(found: Comparison, letter: str, which: str, top: int) -> Section:
    """Ops whose calls differ or that launch kernels, the largest difference in time first."""
    every = (*found.ops.removed, *found.ops.added, *found.ops.same)
    rows = [row for row in every if row.a != row.b or row.a_gpu_ns or row.b_gpu_ns]
    cells = []
    for row in sorted(rows, key=_weight, reverse=True)[:top]:
        times = (row.a_ns, row.b_ns, row.a_gpu_ns, row.b_gpu_ns)
        spent = (time_text(ns) if ns else "" for ns in times)
        cells.append([row.name, count_text(row.a), count_text(row.b), *spent])
    cells += [[f"… and {len(rows) - top} more", *[""] * 6]] if len(rows) > top else []
    heads = [f"{what} {name}" for what in ("calls", "host", "GPU") for name in ("A", letter)]
    title = f"Ops per {found.unit.word}{which}: calls, self CPU time, time of their kernels"
    return Section(title, head=["op", *heads], rows=cells)


def _weight(row: OpPair) -> float:
    return abs(row.a_ns - row.b_ns) + max(row.a_gpu_ns, row.b_gpu_ns)
