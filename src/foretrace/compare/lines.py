"""A comparison for people: the verdict and one line a change first, tables on demand; sentences.

Names are given as the trace has them. A fusion saves memory traffic: what one kernel writes is
still in L2 for the next if L2 holds all that either of them moves, and then the traffic takes less
time than HBM's.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter

from foretrace.base import tables
from foretrace.base.tables import BESIDE, TEXT, WORDS, Column, Line, Table, bulleted, fitted
from foretrace.base.terminal import WIDTH, shorten, stem
from foretrace.base.units import (
    DASH,
    bytes_text,
    change_text,
    count_text,
    listing,
    percent_text,
    plural,
    range_text,
    ratio_text,
    sum_of_all,
    time_text,
)
from foretrace.compare.changes import COPY, Fusion, WorkChange
from foretrace.compare.documents import ChangeEntry, ComparedOp, TimePair
from foretrace.compare.measure import change
from foretrace.compare.sides import Kernel, Side
from foretrace.compare.verdict import Comparison, differs, mark_text
from foretrace.trace.metadata import device_of
from foretrace.trace.modules import PYTHON
from foretrace.work.costs.limits import cache_rate, memory_rate, traffic_ns
from foretrace.work.devices import Device

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PARTS = ("times", "kernels", "ops")  # shown on demand
OPS = 12  # rows of ops on the first screen of a CPU
GROUP = 34  # columns of a change's name
NAME = 48  # of a file's name
BESIDE_A = 4  # traces that fit as columns
TITLES = {"region": "Per call", "step": "Per step", "trace": "In the whole recording"}
BARE = "wall, no profiler"  # known where both traces have a run record
TIMES: dict[str, Callable[[Comparison], ChangeEntry]] = {
    "GPU time": lambda found: found.gpu_ns,
    "host, profiled": lambda found: found.cpu_ns,
    "wall, profiled": lambda found: found.wall_ns,
    "GPU idle": lambda found: found.idle_ns,
    BARE: lambda found: found.bare_wall_ns,
}
PROFILED = ("GPU time", "host, profiled", "wall, profiled")
ON_CPU = ("host, profiled", BARE)
COUNTS: dict[str, Callable[[Side], int]] = {
    "kernel": lambda side: len(side.kernels),
    "memcpy": lambda side: side.memcpys,
    "memset": lambda side: side.memsets,
    "launch": lambda side: side.launches,
}
FEW = 4  # names that one sentence holds; the tables list all
LONG = 72  # a C++ kernel name longer than this goes by its short form
LARGEST = 3  # fusions that get a sentence; the document has all
LEAST = 1_000_000  # bytes: less takes no time worth a sentence
MOST = 3  # sentences of one kind; `foretrace compare` lists all
SHOWN = 0.01  # of a sum: three digits are shown, so less is not visible


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
        return tables.text([*_screen(found, rows, width), *rest], width=width, bold=bold)
    kernels = "" if on_cpu(found) else " --kernels"
    more = Table(lines=[Line("", f"more: --times{kernels} --ops --region NAME --all")])
    page = fitted(lambda most: [*_screen(found, most, width), more], rows, width)
    return tables.text(page, width=width, bold=bold)


def comparison_markdown(found: Comparison, top: int, shown: Collection[str] = ()) -> str:
    """The page as Markdown; every name is escaped."""
    return tables.marked([*_screen(found, top, WIDTH), *_rest(found, top, shown)])


def _screen(found: Comparison, rows: int, width: int) -> list[Table]:
    every = (found, *found.others)
    sides = list(zip(LETTERS, (found.a, *(each.b for each in every)), strict=False))
    paths = [side.trace.path for _, side in sides]
    names = [stem(path) for path in paths]  # unless two names are equal
    paths = names if all(names) and len({*names}) == len({*paths}) else paths
    lines = [
        Line(letter, f"{shorten(path, NAME)}{_heading(side)}")
        for path, (letter, side) in zip(paths, sides, strict=True)
    ]
    printed = [Line("A100", f"the articles print: {found.published}")] if found.published else []
    lost = [  # lost data looks like a difference
        Line(f"! {letter}", f"{note.shown}: a difference may come from that")
        for letter, side in sides
        for note in side.trace.ledger.banner
    ]
    if found.others:
        lines += [
            Line(f"{letter} against A", f"{each.verdict.answer.upper()}: {each.verdict.text}")
            for letter, each in zip(LETTERS[1:], every, strict=False)
        ]
        return [Table(lines=[*lines, *printed, *lost]), quantities(every)]
    lines.append(Line(found.verdict.answer.upper(), found.verdict.text))
    calls, cost = found.worth.break_even_calls, found.cost_s
    if found.verdict.answer == "faster" and calls is not None and cost:
        after = f"breaks even after {plural(calls, found.unit.word)}"
        lines.append(Line(BESIDE, f"compile time ({time_text(cost * 1e9)}) {after}"))
    lines += [Line("PREDICTED", mark_text(found.mark))] if found.mark else []
    if found.verdict.answer == "different":
        return [Table(lines=[*lines, *lost], more=_totals(found))]
    lines += [*printed, *(Line("NOTE", text) for text in circumstances(found)), *lost]
    shown = _op_changes(found, rows) if on_cpu(found) else _changes(found, rows)
    # the last column is cut to the width, between words
    cells, head = shown.cells, [column.name for column in shown.columns]
    sizes = [max(len(row[at]) for row in (head, *cells)) for at in range(len(head) - 1)]
    room = width - sum(sizes) - 2 * len(head)
    cut = [(*row[:-1], _fit(row[-1], room)) for row in shown.rows]
    return [replace(shown, lines=lines, rows=cut)]


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


def _columns(*columns: tuple[str, str]) -> list[Column]:
    """Columns of rows that are tuples."""
    return [Column(name, itemgetter(at), unit) for at, (name, unit) in enumerate(columns)]


def _changes(found: Comparison, most: int) -> Table:
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
    times, ends = (("A", "ns"), ("B", "ns"), ("saved", "ns")), ("", WORDS)
    name = (f"GPU work per {found.unit.word}", WORDS)
    return Table(
        "", _columns(name, ("x", "count"), ("count", TEXT), *times, ends), rows, _totals(found)
    )


def _change(row: WorkChange) -> tuple[object, ...]:
    in_all = "" if row.even else " in all"
    counts = range_text(*(row.kernels if any(row.kernels) else row.copies), count_text) + in_all
    moved = any(row.kernels) and row.copies_a != row.copies_b
    copies = f"{change_text(*row.copies, count_text)} {COPY}{in_all}" if moved else ""
    how = ", ".join(filter(None, (row.how, copies)))
    times = row.times if row.times > 1 else ""
    return (_fit(row.group, GROUP), times, counts, *_spent_on([row]), how)


def _sum(name: str, rows: Sequence[WorkChange], how: str = "") -> tuple[object, ...]:
    counts = range_text(sum(row.a for row in rows), sum(row.b for row in rows), count_text)
    return (name, "", counts, *_spent_on(rows), how)


def _spent_on(rows: Sequence[WorkChange]) -> tuple[object, ...]:
    a, b = sum_of_all(row.ns_a for row in rows), sum_of_all(row.ns_b for row in rows)
    return a, b, "" if a is None or b is None else a - b


def on_cpu(found: Comparison) -> bool:
    """Whether neither side launched anything: the ops computed."""
    return not any(side.work or side.launches for side in (found.a, found.b))


def _op_changes(found: Comparison, most: int) -> Table:
    """The same for a CPU: one row for each op whose calls or times differ, then all others."""
    every = [*found.ops.removed, *found.ops.added, *found.ops.same]
    moved = sorted((row for row in every if row.a != row.b or row.apart), key=_weight, reverse=True)
    rows = [
        (_fit(row.name, GROUP), *_op_cells([row]), _op_fate(row, found.unit.word))
        for row in moved[:most]
    ]
    if moved[most:]:
        name = f"… {plural(len(moved) - most, 'more change')}"
        rows.append((name, *_op_cells(moved[most:]), ""))
    same = [row for row in every if row not in moved]
    rows += [("other ops", *_op_cells(same), "times overlap")] if same else []
    outside = TimePair(found.a.outside_ns, found.b.outside_ns)
    rows.append((PYTHON, "", outside.a, outside.b, outside.saved, ""))
    ops = (f"CPU ops per {found.unit.word}", WORDS)
    times = [(each, "ns") for each in ("A", "B", "saved")]
    more = f"{_totals(found)} · times of ops are medians of self CPU time"
    return Table("", _columns(ops, ("calls", TEXT), *times, ("", WORDS)), rows, more)


def _op_cells(rows: Sequence[ComparedOp]) -> tuple[object, ...]:
    calls = range_text(sum(row.a for row in rows), sum(row.b for row in rows), count_text)
    a, b = (sum(getattr(row.self_cpu_ns, side) for row in rows) for side in ("a", "b"))
    return calls, a, b, a - b


def _op_fate(row: ComparedOp, word: str) -> str:
    """`removed`, `added`, `fewer calls`; of as many calls how the times of all repeats compare."""
    if row.a != row.b:
        words = ("removed", "fewer calls") if row.a > row.b else ("added", "more calls")
        return words[min(row.a, row.b) > 0]
    return f"each {word} {'faster' if row.self_cpu_ns.saved > 0 else 'slower'}"


def _fit(text: str, size: int) -> str:
    """Cut between words; one long word keeps its beginning and its end."""
    cut = textwrap.shorten(text, max(size, 2), placeholder=" …")
    return shorten(text, size) if cut == "…" and size > 12 else cut


def _totals(found: Comparison) -> str:
    gpu, host, idle = found.gpu_ns, found.cpu_ns, found.idle_ns
    parts = [f"GPU busy {range_text(gpu.a, gpu.b)}"] if gpu.saved is not None else []
    parts += [f"idle between {range_text(idle.a, idle.b)}"] if idle.saved is not None else []
    if host.saved is not None:
        parts.append(f"host {range_text(host.a, host.b)} (includes profiler overhead)")
    launches = f"launches {range_text(found.a.launches, found.b.launches, count_text)}"
    return " · ".join([*parts, *([] if on_cpu(found) else [launches])])


def _rest(found: Comparison, top: int, shown: Collection[str]) -> list[Table]:
    wanted = PARTS if "all" in shown else [part for part in PARTS if part in shown]
    pages = [quantities((found, *found.others))] if "times" in wanted else []
    for letter, each in zip(LETTERS[1:], (found, *found.others), strict=False):
        which = f" ({letter} against A)" if found.others else ""
        if "all" in shown:
            pages += [
                bulleted(f"Changed{which}", each.changed or ["nothing"]),
                bulleted(f"Unchanged{which}", each.unchanged or ["nothing"]),
            ]
        pages += [kernel_table(each, letter, which, top)] if "kernels" in wanted else []
        pages += [op_table(each, letter, which, top)] if "ops" in wanted else []
    return tables.filled(pages)


def quantities(every: Sequence[Comparison]) -> Table:
    """Times and counts of each trace, and their ratio to A."""
    title = TITLES[every[0].unit.kind]
    within = f"{title} (~ within the noise)"
    if len(every) > BESIDE_A:
        first = [cell for name in PROFILED for cell in (TIMES[name](every[0]).a, "")]
        rows: list[tuple[object, ...]] = [("A", *first, len(every[0].a.kernels))]
        for letter, each in zip(LETTERS[1:], every, strict=False):
            values = [TIMES[name](each) for name in PROFILED]
            cells = [cell for value in values for cell in (value.b, _ratio(value))]
            rows.append((letter, *cells, len(each.b.kernels)))
        heads = [head for name in PROFILED for head in ((name, "ns"), ("/A", TEXT))]
        return Table(within, _columns(("", WORDS), *heads, ("kernels", "count")), rows)
    times = [(name, [time(each) for each in every], time_text) for name, time in TIMES.items()]
    if all(value.saved is None for value in times[-1][1]):
        times.pop()  # without the profiler
    counts = [
        (_many(name), [change(count(each.a), count(each.b)) for each in every], count_text)
        for name, count in COUNTS.items()
    ]
    if all(map(on_cpu, every)):  # nothing was launched, and the host's time is the wall time
        times, counts = [each for each in times if each[0] in ON_CPU], []
    if len(every) == 1:
        rows = [
            (name, text(value.a), text(value.b), value.ratio, *_noise(value))
            for name, (value,), text in times
        ]
        rows += [
            (name, text(value.a), text(value.b), value.ratio, "", "")
            for name, (value,), text in counts
        ]
        sides = (("", WORDS), ("A", TEXT), ("B", TEXT), ("B/A", "ratio"))
        return Table(title, _columns(*sides, ("noise", "share"), ("", WORDS)), rows)
    rows = [
        (
            name,
            text(values[0].a),
            *(cell for each in values for cell in (text(each.b), _ratio(each))),
        )
        for name, values, text in (*times, *counts)
    ]
    letters = [cell for letter in LETTERS[1 : len(every) + 1] for cell in (letter, f"{letter}/A")]
    return Table(within, _columns(("", WORDS), *((head, TEXT) for head in ("A", *letters))), rows)


def _ratio(value: ChangeEntry) -> str:
    """To A; a mark follows a ratio within the noise."""
    within = " ~" if value.beyond is False and value.ratio != 1 else ""
    return ratio_text(value.ratio) + within


def _noise(value: ChangeEntry) -> tuple[float | None, str]:
    if value.ratio is None or value.ratio == 1:
        return value.noise, "same" if value.ratio == 1 else ""
    if value.beyond is None:
        return value.noise, "inconclusive: one repeat"
    return value.noise, (
        "more" if value.ratio > 1 else "less"
    ) if value.beyond else "within the noise"


def kernel_table(found: Comparison, letter: str, which: str, top: int) -> Table:
    """Each kernel once; the new one below a changed one; times of one launch."""
    kernels, rows = found.kernels, list[tuple[object, ...]]()
    signs = {"=": kernels.same, "~": kernels.changed, "-": kernels.removed, "+": kernels.added}
    for sign, members in signs.items():
        for row in sorted(members, key=lambda row: -row.total_ns)[:top]:
            kernel, ns = row.kernel, row.ns
            a, b, ratio = ("" if each is None else each for each in (ns.a, ns.b, ns.ratio))
            first = (sign, called(kernel.name, kernel.short), _op(kernel), row.count, a)
            if sign != "~" or row.b is None:
                rows.append((*first, b, ratio))
                continue
            other = row.b.name != kernel.name
            new = called(row.b.name, row.b.short) if other else ", ".join(row.why)
            op = _op(row.b) if row.b.op != kernel.op else ""
            rows += [(*first, "", ""), ("", f"> {new}", op, "", "", b, ratio)]
        more = len(members) - top
        rows += [("", f"… and {more} more", *[""] * 5)] if more > 0 else []
    title = f"Kernels per {found.unit.word}{which}: = same, ~ changed, - removed, + added"
    names = (("", TEXT), ("kernel", WORDS), ("op", WORDS), ("count", "count"))
    times = (("A", "ns"), (letter, "ns"), (f"{letter}/A", "ratio"))
    return Table(title, _columns(*names, *times), rows)


def _op(kernel: Kernel) -> str:
    """The op, cut so that the kernel keeps its room; Inductor's ops have the kernels' names."""
    return DASH if kernel.op is None else "" if kernel.op == kernel.name else shorten(kernel.op, 28)


def op_table(found: Comparison, letter: str, which: str, top: int) -> Table:
    """Ops whose calls differ, that launch kernels, or that take another time in every repeat, the
    largest difference in time first.
    """
    every, alone = (*found.ops.removed, *found.ops.added, *found.ops.same), on_cpu(found)
    apart = [row for row in every if alone and row.apart]
    rows = [row for row in every if row.a != row.b or row.gpu_ns.a or row.gpu_ns.b or row in apart]
    shown = list[tuple[object, ...]]()
    for row in sorted(rows, key=_weight, reverse=True)[:top]:
        times = (row.self_cpu_ns, *([] if alone else [row.gpu_ns]))
        shown.append(
            (row.name, row.a, row.b, *(ns or "" for each in times for ns in (each.a, each.b)))
        )
    whats = (("calls", "count"), ("host", "ns"), *([] if alone else [("GPU", "ns")]))
    columns = _columns(
        ("op", WORDS), *((f"{what} {name}", unit) for what, unit in whats for name in ("A", letter))
    )
    if len(rows) > top:
        shown.append((f"… and {len(rows) - top} more", *[""] * (len(columns) - 1)))
    kernels = "" if alone else ", time of their kernels"
    title = f"Ops per {found.unit.word}{which}: calls, self CPU time{kernels}"
    return Table(title, columns, shown)


def _weight(row: ComparedOp) -> float:
    return abs(row.self_cpu_ns.saved) + max(row.gpu_ns.a, row.gpu_ns.b)


def called(name: str, short: str) -> str:
    """A kernel's name, or its short form where the name is long."""
    return name if len(name) <= LONG else short or name


def _listed(items: Iterable[tuple[str, int]], few: int = FEW) -> str:
    """`a (2), b, c and 3 more`, equal names joined."""
    counts: Counter[str] = Counter()
    for name, count in items:
        counts[name] += count
    names = [
        name if count == 1 else f"{name} ({count_text(count)})" for name, count in counts.items()
    ]
    more = len(names) - few
    return listing([*names[:few], f"{count_text(more)} more"] if more > 0 else names)


def _traffic_line(device: Device, fusion: Fusion, word: str) -> str:
    saved, largest = fusion.bytes_saved or 0, fusion.largest_bytes
    names = _listed((op.removeprefix("aten::"), 1) for op in fusion.replaces)
    memory = saved / memory_rate(device) * 1e9
    text = f"Fusing {names} {word} {bytes_text(saved)} of memory traffic"
    if not largest or largest > (device.cache_bytes or 0) or not cache_rate(device):
        return f"{text}, {time_text(memory)} at the HBM roof."
    cached = traffic_ns(device, saved, largest)
    fits = f"A kernel moves at most {bytes_text(largest)}, which fits in L2"
    return f"{text}. {fits}: {time_text(cached)} at its roof, not the {time_text(memory)} of HBM."


def changed(found: Comparison) -> tuple[str, ...]:
    """Everything that differs; empty for a trace compared with itself."""
    per = f"per {found.unit.word}"
    lines = [*circumstances(found), *_once(found)]
    for name, value in _times(found):
        if differs(value):
            lines.append(_time(name, value, per))
            lines += _host_parts(found) if value is found.cpu_ns else []
    counts = [
        f"{count_text(a)} to {plural(b, name, _many(name))}"
        for name, a, b in _counts(found)
        if a != b
    ]
    lines += [f"Counts {per}: {listing(counts)}."] if counts else []
    lines += _changed_rows(found)
    device = device_of(found.a.trace.about)
    if device is None or device_of(found.b.trace.about) != device:
        traffic_lines = []
    else:
        rows = [(each, "avoids at most") for each in found.kernels.fusions]
        rows += [(each, "avoided at most") for each in found.kernels.undone]
        rows = [row for row in rows if (row[0].bytes_saved or 0) >= LEAST]
        rows.sort(key=lambda row: -(row[0].bytes_saved or 0))
        traffic_lines = [_traffic_line(device, each, word) for each, word in rows[:LARGEST]]
    pairs = [(pair.a, pair.b) for pair in found.kernels.changed]
    matmuls = [
        (a, b) for a, b in pairs if a and b and a.role == b.role == "gemm" and a.name != b.name
    ]
    card, crossings = found.a.trace.about.device, list[str]()
    if matmuls and card == found.b.trace.about.device:
        from foretrace.compare.crossings import crossing_lines  # few comparisons need the map

        crossings = list(dict.fromkeys(crossing_lines(card, matmuls)))[:MOST]
    lines += [*traffic_lines, *crossings]
    return (*lines, *_ops(found.ops.removed, "fewer", per), *_ops(found.ops.added, "more", per))


def _changed_rows(found: Comparison) -> list[str]:
    return [f"{row.text}." for row in found.work if row.fate != "same"]


def unchanged(found: Comparison) -> tuple[str, ...]:
    """What stayed the same, and what changed by no more than the noise."""
    per = f"per {found.unit.word}"
    lines = [f"{row.text} (same)." for row in found.work if row.fate == "same"]
    lines += [
        _time(name, value, per)
        for name, value in _times(found)
        if value.saved is not None and not differs(value)
    ]
    counts = [plural(a, name, _many(name)) for name, a, b in _counts(found) if a == b and a]
    lines += [f"Same counts {per}: {listing(counts)}."] if counts else []
    if found.ops.same:
        calls = _listed((row.name, row.a) for row in found.ops.same)
        lines.append(f"Same op calls {per}: {calls}.")
    return tuple(lines)


def _times(found: Comparison) -> list[tuple[str, ChangeEntry]]:
    wall = [("Profiled wall time", found.wall_ns)]
    return [
        ("GPU time", found.gpu_ns),
        ("Profiled host time", found.cpu_ns),
        *(wall if found.wall_ns != found.cpu_ns else []),  # a CPU has no other
        ("Wall time without the profiler", found.bare_wall_ns),
    ]


def _time(name: str, value: ChangeEntry, per: str) -> str:
    ratio, times = value.ratio, change_text(value.a, value.b)
    if ratio is None:
        return f"{name}: {times} {per}."
    if ratio == 1:
        return f"{name} is the same: {time_text(value.a)} {per}."
    if value.noise is None:
        return f"{name}: {times} {per} ({ratio_text(ratio)}); inconclusive, the noise is unknown."
    noise = percent_text(value.noise)
    if not value.beyond:
        subject = name.replace("Profiled", "profiled").replace("Wall", "wall")
        within = f"is within the noise of {noise}"
        return f"Inconclusive: {subject}, {times} {per} ({ratio_text(ratio)}), {within}."
    word = "falls" if ratio < 1 else "rises"
    percent = percent_text(abs(ratio - 1))
    return f"{name} {word} by {percent}: {times} {per} ({ratio_text(ratio)}, noise {noise})."


def circumstances(found: Comparison) -> list[str]:
    """How two recordings differ before the program does."""
    a, b, lines = found.a.trace.about, found.b.trace.about, []
    cut = [side.trace.ledger.count("trace_truncated") for side in (found.a, found.b)]

    def differ(*values: object) -> bool:
        """Whether A and B differ; what a cut trace lacks may have followed the cut."""
        lost = any(value is None and count for value, count in zip(values, cut, strict=True))
        return values[0] != values[1] and not lost

    if differ(a.device, b.device) or differ(a.arch, b.arch):
        gpus = f"{a.device or 'unknown'} and {b.device or 'unknown'}"
        both = "Every ratio compares the GPUs as well as the programs."
        lines.append(f"The GPUs differ: {gpus}. {both}")
    if differ(a.rank, b.rank):
        ranks = ["unknown" if rank is None else str(rank) for rank in (a.rank, b.rank)]
        lines.append(f"The ranks differ: {listing(ranks)}.")
    for option in ("record_shapes", "with_stack", "profile_memory"):
        if differ(option in a.options or None, option in b.options or None):
            only = f"Only {'A' if option in a.options else 'B'} was recorded with {option}=True"
            adds = "which adds host time: host and wall times are not comparable"
            lines.append(f"{only}, {adds}.")
    return lines


def _once(found: Comparison) -> list[str]:
    lone = [name for name, side in (("A", found.a), ("B", found.b)) if len(side.repeats.spans) == 1]
    if not lone or not any(value.noise is None and differs(value) for _, value in _times(found)):
        return []
    have = f"{listing(lone)} {'has' if len(lone) == 1 else 'have'} one repeat only"
    return [f"{have}: the noise is unknown, and every time below is inconclusive."]


def _host_parts(found: Comparison) -> list[str]:
    """What one part of the host saves, another may cost: the parts shown add up to the net."""
    saved, cost = _spent(found.ops.removed), -_spent(found.ops.added)
    net = found.cpu_ns.saved
    if not net or saved <= 0 or cost <= 0:
        return []
    rest, others = net - saved + cost, ""
    if abs(rest) > SHOWN * max(saved, cost):
        word = "saves" if rest > 0 else "costs"
        named = "other ops, launches, gaps" if _on_gpu(found) else "other ops, Python"
        others = f"; the rest ({named}) {word} {time_text(abs(rest))}"
    return [
        f"Profiled host time by part: ops called less often save {time_text(saved)} (self CPU "
        f"time); ops called more often cost {time_text(cost)}{others}; net {time_text(abs(net))} "
        f"{'less' if net > 0 else 'more'}."
    ]


def _spent(rows: Sequence[ComparedOp]) -> float:
    """What these take less in B."""
    return sum(row.self_cpu_ns.saved for row in rows)


def _counts(found: Comparison) -> list[tuple[str, int, int]]:
    return [(name, count(found.a), count(found.b)) for name, count in COUNTS.items()]


def _many(name: str) -> str:
    return "launches" if name == "launch" else f"{name}s"


def _ops(rows: Sequence[ComparedOp], word: str, per: str) -> list[str]:
    """Ops and the rows of torch.compile have a sentence each."""
    lines = []
    for what in ("op call", "torch.compile row"):
        chosen = [row for row in rows if row.by_compiler is (what != "op call")]
        if chosen:
            spent = time_text(abs(_spent(chosen)))
            counted = plural(sum(abs(row.a - row.b) for row in chosen), f"{word} {what}")
            names = _listed(((row.name, abs(row.a - row.b)) for row in chosen), few=3 * FEW)
            lines.append(f"{counted} {per} ({spent} self CPU time): {names}.")
    return lines


def changed_work(found: Comparison) -> list[str]:
    """What B does that A does not, without times. A CPU trace has no kernels: its ops show it."""
    per, ops = f"per {found.unit.word}", found.ops
    moved = [
        f"{name}s {count_text(a)} to {count_text(b)}" for name, a, b in _counts(found)[:3] if a != b
    ]
    lines = [f"{', '.join(moved)} {per}.".capitalize()] if moved else []
    lines += _changed_rows(found)[: 2 * MOST]
    if not _on_gpu(found):
        named = {"No longer called": _named(ops.removed), "New": _named(ops.added)}
        lines += [f"{word} {per}: {names}." for word, names in named.items() if names]
    # what torch.compile itself costs the host in each call
    if rows := [entry for entry in ops.added if entry.by_compiler]:
        spent = time_text(-_spent(rows))
        lines.append(f"torch.compile's own rows take {spent} of host time {per}.")
    return lines


def same_work(found: Comparison) -> list[str]:
    """What both do, without times."""
    per = f"per {found.unit.word}"
    kernels = [f"{row.text} {per}, the same." for row in found.work if row.fate == "same"]
    names = "" if _on_gpu(found) else _named(found.ops.same)
    return [*kernels, f"Called as often {per}: {names}."] if names else kernels


def _on_gpu(found: Comparison) -> bool:
    return bool(found.a.kernels or found.b.kernels)


def _named(rows: tuple[ComparedOp, ...]) -> str:
    own = [entry for entry in rows if not entry.by_compiler]
    counts = [(entry.name, abs(entry.a - entry.b) or entry.a) for entry in own]
    return _listed(counts, few=8) if counts else ""
