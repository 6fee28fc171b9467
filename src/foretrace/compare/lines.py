"""A comparison for people: the verdict and one line a change first, tables on demand.

Two jobs, and two results of `foretrace try`, are compared in the same way.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from foretrace.base.terminal import (
    WIDTH,
    Column,
    Section,
    bulleted,
    drawn,
    fitted,
    listing,
    marked,
    shorten,
    stem,
)
from foretrace.base.units import (
    DASH,
    change_text,
    count_text,
    percent_text,
    plural,
    range_text,
    ratio_text,
    sum_of_all,
    time_text,
)
from foretrace.compare.changes import COPY, WorkChange
from foretrace.compare.documents import (
    ChangeEntry,
    ComparedOp,
    CompareJobsDocument,
    CompareTriesDocument,
    TimePair,
)
from foretrace.compare.marks import mark_text
from foretrace.compare.measure import change
from foretrace.compare.sentences import called, circumstances
from foretrace.compare.sides import Kernel, Side
from foretrace.compare.verdict import Comparison
from foretrace.jobs.verdict import read_text
from foretrace.trace.modules import PYTHON

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TITLES = {"region": "Per call", "step": "Per step", "trace": "In the whole recording"}
BARE = "wall, no profiler"  # known where both traces have a run record
TIMES: dict[str, Callable[[Comparison], ChangeEntry]] = {
    "GPU time": lambda found: found.gpu_ns,
    "host, profiled": lambda found: found.cpu_ns,
    "wall, profiled": lambda found: found.wall_ns,
    "GPU idle": lambda found: found.idle_ns,
    BARE: lambda found: found.bare_wall_ns,
}
ON_CPU = ("host, profiled", BARE)
COUNTS: dict[str, Callable[[Side], int]] = {
    "kernels": lambda side: len(side.kernels),
    "memcpys": lambda side: side.memcpys,
    "memsets": lambda side: side.memsets,
    "launches": lambda side: side.launches,
}


def quantities(every: Sequence[Comparison]) -> Section:
    """Times and counts of each trace, and their ratio to A."""
    title = TITLES[every[0].unit.kind]
    if len(every) > 4:  # traces beside A that fit as columns
        shown = {name: TIMES[name] for name in ("GPU time", "host, profiled", "wall, profiled")}
        base = [cell for time in shown.values() for cell in (time_text(time(every[0]).a), "")]
        rows = [["A", *base, count_text(len(every[0].a.kernels))]]
        for letter, each in zip(LETTERS[1:], every, strict=False):
            pairs = [_cells([time(each)], time_text, mark=" ~")[1:] for time in shown.values()]
            cells = [cell for pair in pairs for cell in pair]
            rows.append([letter, *cells, count_text(len(each.b.kernels))])
        head = ["", *(cell for name in shown for cell in (name, "/A")), "kernels"]
        return Section(f"{title} (~ within the noise)", head=head, rows=rows)
    times = {name: [time(each) for each in every] for name, time in TIMES.items()}
    if all(value.saved is None for value in times[BARE]):
        del times[BARE]
    counts = {
        name: [change(count(each.a), count(each.b)) for each in every]
        for name, count in COUNTS.items()
    }
    if all(map(on_cpu, every)):  # nothing was launched, and the host's time is the wall time
        times, counts = {name: times[name] for name in times if name in ON_CPU}, {}
    if len(every) == 1:
        rows = [[name, *_cells(each, time_text), *_noise(*each)] for name, each in times.items()]
        rows += [[name, *_cells(values, count_text), "", ""] for name, values in counts.items()]
        return Section(title, head=["", "A", "B", "B/A", "noise", ""], rows=rows, left=(0, 5))
    rows = [[name, *_cells(values, time_text, mark=" ~")] for name, values in times.items()]
    rows += [[name, *_cells(values, count_text)] for name, values in counts.items()]
    heads = [cell for letter in LETTERS[1 : len(every) + 1] for cell in (letter, f"{letter}/A")]
    return Section(f"{title} (~ within the noise)", head=["", "A", *heads], rows=rows)


def _cells(
    values: Sequence[ChangeEntry], text: Callable[[float | None], str], mark: str = ""
) -> list[str]:
    """A, then each other trace and its ratio to A; `mark` follows a ratio within the noise."""
    cells = [text(values[0].a)]
    for value in values:
        within = mark if value.beyond is False and value.ratio != 1 else ""
        cells += [text(value.b), ratio_text(value.ratio) + within]
    return cells


def _noise(value: ChangeEntry) -> tuple[str, str]:
    noise = percent_text(value.noise)
    if value.ratio is None or value.ratio == 1:
        return noise, "same" if value.ratio == 1 else ""
    if value.beyond is None:
        return noise, "inconclusive: one repeat"
    return noise, ("more" if value.ratio > 1 else "less") if value.beyond else "within the noise"


def kernel_table(found: Comparison, letter: str, which: str, top: int) -> Section:
    """Each kernel once; the new one below a changed one; times of one launch."""
    table, rows = found.kernels, list[list[str]]()
    signs = {"=": table.same, "~": table.changed, "-": table.removed, "+": table.added}
    for sign, members in signs.items():
        for row in sorted(members, key=lambda row: -row.total_ns)[:top]:
            kernel, ns = row.kernel, row.ns
            a, b = (time_text(value) if value is not None else "" for value in (ns.a, ns.b))
            name, count = called(kernel.name, kernel.short), count_text(row.count)
            first, ratio = [sign, name, _op(kernel), count, a], ratio_text(ns.ratio)
            ratio = ratio if ns.ratio is not None else ""
            if sign != "~" or row.b is None:
                rows.append([*first, b, ratio])
                continue
            other = row.b.name != kernel.name
            new = called(row.b.name, row.b.short) if other else ", ".join(row.why)
            op = _op(row.b) if row.b.op != kernel.op else ""
            rows += [[*first, "", ""], ["", f"> {new}", op, "", "", b, ratio]]
        more = len(members) - top
        rows += [["", f"… and {more} more", *[""] * 5]] if more > 0 else []
    title = f"Kernels per {found.unit.word}{which}: = same, ~ changed, - removed, + added"
    head = ["", "kernel", "op", "count", "A", letter, f"{letter}/A"]
    return Section(title, head=head, rows=rows, left=(1, 0, 2))


def _op(kernel: Kernel) -> str:
    """The op, cut so that the kernel keeps its room; Inductor's ops have the kernels' names."""
    return DASH if kernel.op is None else "" if kernel.op == kernel.name else shorten(kernel.op, 28)


def op_table(found: Comparison, letter: str, which: str, top: int) -> Section:
    """Ops whose calls differ, that launch kernels, or that take another time in every repeat, the
    largest difference in time first.
    """
    every, alone = (*found.ops.removed, *found.ops.added, *found.ops.same), on_cpu(found)
    apart = [row for row in every if alone and row.apart]
    rows = [row for row in every if row.a != row.b or row.gpu_ns.a or row.gpu_ns.b or row in apart]
    cells = []
    for row in sorted(rows, key=_weight, reverse=True)[:top]:
        times = (row.self_cpu_ns, *([] if alone else [row.gpu_ns]))
        spent = (time_text(ns) if ns else "" for each in times for ns in (each.a, each.b))
        cells.append([row.name, count_text(row.a), count_text(row.b), *spent])
    whats = ("calls", "host", *([] if alone else ["GPU"]))
    heads = [f"{what} {name}" for what in whats for name in ("A", letter)]
    cells += [[f"… and {len(rows) - top} more", *[""] * len(heads)]] if len(rows) > top else []
    kernels = "" if alone else ", time of their kernels"
    title = f"Ops per {found.unit.word}{which}: calls, self CPU time{kernels}"
    return Section(title, head=["op", *heads], rows=cells)


def _weight(row: ComparedOp) -> float:
    return abs(row.self_cpu_ns.saved) + max(row.gpu_ns.a, row.gpu_ns.b)


PARTS = ("times", "kernels", "ops")  # shown on demand
OPS = 12  # rows of ops on the first screen of a CPU
GROUP = 34  # columns of a change's name
NAME = 48  # of a file's name


def comparison_text(
    found: Comparison,
    top: int,
    shown: Collection[str] = (),
    *,
    width: int = WIDTH,
    bold: bool = False,
) -> str:
    """The page for a terminal; `shown` are the parts wanted beside the first screen."""
    rest, rows = _rest(found, top, shown), len(found.work) or OPS
    if rest:
        return drawn([*_screen(found, rows, width), *rest], width=width, bold=bold)
    kernels = "" if on_cpu(found) else " --kernels"
    more = Section("", [f"more: --times{kernels} --ops --region NAME --all"])
    page = fitted(lambda most: [*_screen(found, most, width), more], rows, width)
    return drawn(page, width=width, bold=bold)


def comparison_markdown(found: Comparison, top: int, shown: Collection[str] = ()) -> str:
    """The page as Markdown; every name is escaped."""
    return marked([*_screen(found, top, WIDTH), *_rest(found, top, shown)])


def _screen(found: Comparison, rows: int, width: int) -> list[Section]:
    every = (found, *found.others)
    sides = list(zip(LETTERS, (found.a, *(each.b for each in every)), strict=False))
    paths = [side.trace.path for _, side in sides]
    names = [stem(path) for path in paths]  # unless two names are equal
    paths = names if all(names) and len({*names}) == len({*paths}) else paths
    lines = [
        (letter, f"{shorten(path, NAME)}{_heading(side)}")
        for path, (letter, side) in zip(paths, sides, strict=True)
    ]
    printed = [("A100", f"the articles print: {found.published}")] if found.published else []
    if found.others:
        lines += [
            (f"{letter} against A", f"{each.verdict.answer.upper()}: {each.verdict.text}")
            for letter, each in zip(LETTERS[1:], every, strict=False)
        ]
        lines += printed
        return [Section("", labelled=[*lines, *_lost(sides)]), quantities(every)]
    said = (found.verdict.answer.upper(), found.verdict.text)
    lines.append(said)
    calls, cost = found.worth.break_even_calls, found.cost_s
    if found.verdict.answer == "faster" and calls is not None and cost:
        after = f"breaks even after {plural(calls, found.unit.word)}"
        lines.append(("", f"compile time ({time_text(cost * 1e9)}) {after}"))
    lines += [("PREDICTED", mark_text(found.mark))] if found.mark else []
    if found.verdict.answer == "different":
        return [Section("", labelled=[*lines, *_lost(sides)], after=_times(found))]
    lines += [*printed, *(("NOTE", text) for text in circumstances(found)), *_lost(sides)]
    draw = _op_changes if on_cpu(found) else _changes
    return [draw(found, rows, width, lines)]


def _lost(sides: Iterable[tuple[str, Side]]) -> list[tuple[str, str]]:
    """Lost data looks like a difference."""
    return [
        (f"! {letter}", f"{note.shown}: a difference may come from that")
        for letter, side in sides
        for note in side.trace.ledger.banner
    ]


def _heading(side: Side) -> str:
    about, repeats, count = side.trace.about, side.repeats, len(side.repeats.spans)
    what = plural(count, {"region": "call", "step": "step", "trace": "recording"}[side.unit.kind])
    name = f" of {shorten(side.unit.name, 24)}" if side.unit.name else ""
    odd = f" ({repeats.agreeing} with the kernels compared)" if repeats.agreeing < count else ""
    idle = f", {repeats.idle} more launched nothing" if repeats.idle else ""
    rank = f", rank {about.rank}" if about.rank is not None else ""
    none = "no GPU named" if side.work or about.device else "CPU"
    device = f"{shorten(about.device or none, 32)}{rank}"
    return f" · {device} · {what}{name}{odd}{idle}"


def _changes(found: Comparison, most: int, width: int, lines: Sequence[tuple[str, str]]) -> Section:
    """Below the verdict one row a change, what is the same, and the whole: the rows add up."""
    work = [row for row in found.work if row.fate != "same"]
    same = [row for row in found.work if row.fate == "same"]
    rows = [_change(row) for row in work[:most]]
    if work[most:]:
        rows.append(_sum(f"… {plural(len(work) - most, 'more change')}", work[most:]))
    if same:
        groups = ", ".join(f"{row.group} {count_text(row.a)}" for row in same)
        rows.append(_sum("same work", same, groups))
    rows += [_sum("all GPU work", found.work)] if len(rows) > 1 else []
    head = [f"GPU work per {found.unit.word}", "x", "count", "A", "B", "saved", ""]
    return _fitted(head, rows, width, lines, _times(found))


def _fitted(
    head: list[str], rows: list[list[str]], width: int, lines: Sequence[tuple[str, str]], after: str
) -> Section:
    """The table with its last column cut to the width."""
    sizes = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head) - 1)]
    room = width - sum(sizes) - 2 * len(head)
    cut = [[*row[:-1], _fit(row[-1], room)] for row in rows]
    left = (0, len(head) - 1)
    return Section("", labelled=lines, head=head, rows=cut, left=left, after=after)


def on_cpu(found: Comparison) -> bool:
    """Whether neither side launched anything: the ops computed."""
    return not any(side.work or side.launches for side in (found.a, found.b))


def _op_changes(
    found: Comparison, most: int, width: int, lines: Sequence[tuple[str, str]]
) -> Section:
    """The same for a CPU: one row for each op whose calls or times differ, then all others."""
    every = [*found.ops.removed, *found.ops.added, *found.ops.same]
    moved = sorted((row for row in every if row.a != row.b or row.apart), key=_weight, reverse=True)
    rows = [
        [_fit(row.name, GROUP), *_op_cells([row]), _op_fate(row, found.unit.word)]
        for row in moved[:most]
    ]
    if moved[most:]:
        name = f"… {plural(len(moved) - most, 'more change')}"
        rows.append([name, *_op_cells(moved[most:]), ""])
    same = [row for row in every if row not in moved]
    rows += [["other ops", *_op_cells(same), "times overlap"]] if same else []
    outside = TimePair(found.a.outside_ns, found.b.outside_ns)
    rows.append([PYTHON, "", *_pair_cells(outside), ""])
    head = [f"CPU ops per {found.unit.word}", "calls", "A", "B", "saved", ""]
    after = f"{_times(found)} · times of ops are medians of self CPU time"
    return _fitted(head, rows, width, lines, after)


def _op_cells(rows: Sequence[ComparedOp]) -> list[str]:
    calls = range_text(sum(row.a for row in rows), sum(row.b for row in rows), count_text)
    times = [row.self_cpu_ns for row in rows]
    return [calls, *_pair_cells(TimePair(sum(ns.a for ns in times), sum(ns.b for ns in times)))]


def _pair_cells(ns: TimePair) -> list[str]:
    return [time_text(ns.a), time_text(ns.b), time_text(ns.saved)]


def _op_fate(row: ComparedOp, word: str) -> str:
    """`removed`, `added`, `fewer calls`; of as many calls how the times of all repeats compare."""
    if row.a != row.b:
        words = ("removed", "fewer calls") if row.a > row.b else ("added", "more calls")
        return words[min(row.a, row.b) > 0]
    return f"each {word} {'faster' if row.self_cpu_ns.saved > 0 else 'slower'}"


def _change(row: WorkChange) -> list[str]:
    times = count_text(row.times) if row.times > 1 else ""
    in_all = "" if row.even else " in all"
    counts = range_text(*(row.kernels if any(row.kernels) else row.copies), count_text) + in_all
    moved = any(row.kernels) and row.copies_a != row.copies_b
    copies = f"{change_text(*row.copies, count_text)} {COPY}{in_all}" if moved else ""
    how = ", ".join(filter(None, (row.how, copies)))
    return [_fit(row.group, GROUP), times, counts, *_spent([row]), how]


def _sum(name: str, rows: Sequence[WorkChange], how: str = "") -> list[str]:
    counts = range_text(sum(row.a for row in rows), sum(row.b for row in rows), count_text)
    return [name, "", counts, *_spent(rows), how]


def _spent(rows: Sequence[WorkChange]) -> list[str]:
    a, b = sum_of_all(row.ns_a for row in rows), sum_of_all(row.ns_b for row in rows)
    saved = "" if a is None or b is None else time_text(a - b)
    return [time_text(a), time_text(b), saved]


def _fit(text: str, size: int) -> str:
    """Cut between words; one long word keeps its beginning and its end."""
    cut = textwrap.shorten(text, max(size, 2), placeholder=" …")
    return shorten(text, size) if cut == "…" and size > 12 else cut


def _times(found: Comparison) -> str:
    gpu, host, idle = found.gpu_ns, found.cpu_ns, found.idle_ns
    parts = [f"GPU busy {range_text(gpu.a, gpu.b)}"] if gpu.saved is not None else []
    parts += [f"idle between {range_text(idle.a, idle.b)}"] if idle.saved is not None else []
    if host.saved is not None:
        parts.append(f"host {range_text(host.a, host.b)} (includes profiler overhead)")
    launches = f"launches {range_text(found.a.launches, found.b.launches, count_text)}"
    return " · ".join([*parts, *([] if on_cpu(found) else [launches])])


def _rest(found: Comparison, top: int, shown: Collection[str]) -> list[Section]:
    wanted = PARTS if "all" in shown else [part for part in PARTS if part in shown]
    sections = [quantities((found, *found.others))] if "times" in wanted else []
    for letter, each in zip(LETTERS[1:], (found, *found.others), strict=False):
        which = f" ({letter} against A)" if found.others else ""
        if "all" in shown:
            sections += [
                bulleted(f"Changed{which}", each.changed or ["nothing"]),
                bulleted(f"Unchanged{which}", each.unchanged or ["nothing"]),
            ]
        sections += [kernel_table(each, letter, which, top)] if "kernels" in wanted else []
        sections += [op_table(each, letter, which, top)] if "ops" in wanted else []
    return [each for each in sections if each.bullets or each.rows]


SAID = ("lost", "gained")  # those that have a line of their own


def try_comparison(found: CompareTriesDocument) -> list[Section]:
    """Both sides, the verdict, the fixes that changed, and a row for each that both measured."""
    rows = [row for row in found.fixes if row.a is not None and row.b is not None]
    sides = [
        (letter, f"{os.path.basename(side.script)} · {side.device} · torch {side.torch}")
        for letter, side in (("A", found.a), ("B", found.b))
    ]
    verdict = (found.verdict.answer.upper(), found.verdict.text)
    changed = [(row.answer.upper(), row.text) for row in found.fixes if row.answer in SAID]
    times = f"{change_text(found.best_ns.a, found.best_ns.b)} ({ratio_text(found.best_ns.ratio)})"
    a, b = (", then ".join(side.best) or "the script as it is" for side in (found.a, found.b))
    best = f"{times}: {a}" if a == b else f"{times}: {a} in A; {b} in B"
    head = Section("", labelled=[*sides, verdict, ("BEST", best), *changed])
    columns: dict[str, Column] = {
        "fix": lambda row: f"+ {row.title}" if row.base else row.title,
        "A": lambda row: ratio_text(row.a),
        "B": lambda row: ratio_text(row.b),
        "change": lambda row: "within the noise" if row.answer == "same" else row.answer,
    }
    table = listing("", rows, columns, left=(0, 3))
    known = (row for row in found.fixes if row.a is not None or row.b is not None)
    rest = [row.text for row in known if row.answer == "not compared"]
    return [head, *([table] if rows else []), *([Section("", rest)] if rest else [])]


LARGEST = 1_000  # a ratio above is to next to nothing


def job_comparison(found: CompareJobsDocument, width: int = WIDTH) -> list[Section]:
    """The page: as many collectives as fit 25 lines."""
    named = []
    for letter, job, steps in (("A", found.a, found.steps_a), ("B", found.b, found.steps_b)):
        name = shorten(os.path.basename(job.path.rstrip("/")) or job.path, NAME)
        named.append((letter, f"{name} · {read_text(job)} · {plural(steps, 'whole step')}"))
    verdict = (found.verdict.answer.upper(), found.verdict.text)
    columns: dict[str, Column] = {
        "per step": "what",
        "A": lambda row: time_text(row.a),
        "B": lambda row: time_text(row.b),
        "B / A": lambda row: ratio_text(row.ratio if (row.ratio or 0) < LARGEST else None),
        "noise": lambda row: (
            percent_text(row.noise) + (", within it" if row.beyond is False else "")
        ),
    }
    after = "step: the longest rank; the rest: means over the ranks"
    times = listing("", found.times, columns, after=after)
    head = replace(times, labelled=[*named, verdict, ("LAST", found.last)])
    rates: dict[str, Column] = {
        "collective": "collective",
        "dtype": lambda row: row.dtype,
        "message": "message_bytes",
        "ranks": "group_size",
        "A": lambda row: DASH if row.a is None else f"{row.a:.3g}",
        "B": lambda row: DASH if row.b is None else f"{row.b:.3g}",
        "B / A": "ratio",
    }

    def page(most: int) -> list[Section]:
        rows, left = found.network[:most], len(found.network) - most
        after = f"and {count_text(left)} more (--json)" if left else ""
        table = listing("Bus bandwidth, GB/s", rows, rates, left=(0, 1), after=after)
        return [head, *([table] if most else [])]

    return fitted(page, len(found.network), width)
