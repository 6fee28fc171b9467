"""The pages of `look` on a folder or zip (with `--all` everything), and the table of recordings."""

from __future__ import annotations

import os
import shlex
import statistics
from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from foretrace.base.tables import (
    BULLET,
    TEXT,
    WORDS,
    Column,
    Line,
    Table,
    bulleted,
    filled,
    fitted,
    paragraphs,
    text,
)
from foretrace.base.terminal import WIDTH, shorten
from foretrace.base.units import count_text, plural, ratio_text, time_text
from foretrace.look.documents import (
    Finding,
    IgnoredEntry,
    Look,
    LookSet,
    Overview,
    StepRow,
)
from foretrace.look.lines import LABELS, NAME, device_text, ignored_lines
from foretrace.look.measured_step import WORTH, saving_text
from foretrace.read.ledger import GRAVE


def first_screen(root: str, found: LookSet, width: int = WIDTH) -> list[Table]:
    """What the traces are to each other, a row for each, and how to see more: at most 25 lines."""
    head = _head(root, found)

    def name(look: Look) -> str:
        return _label(look.trace.path, root).removesuffix(".gz").removesuffix(".json")

    columns: tuple[Column, ...] = (Column("trace", name, WORDS),)
    if all(look.cpu for look in found.traces):
        columns += _ON_CPU
    else:
        shown = [*(["rank"] if found.job else []), "kernels", "gpu busy", "busy"]
        columns += tuple(each for each in _NUMBERS if each.name in shown)
        columns += (
            Column("bound", lambda look: look.verdict.bound, WORDS),
            Column(
                "do first", lambda look: _first(look)[0], WORDS
            ),  # the page of the trace says how
            Column("saves", lambda look: _first(look)[1], "ns"),
        )
    waits = f"who waits for whom: foretrace job {shlex.quote(root)}; " if found.job else ""
    more = f"{waits}more: --all; one trace: foretrace look {shlex.quote(_example(found))}"
    lost = [look for look in found.traces if look.ledger.banner]
    said = []
    for look in lost[:1]:
        first = f"{_label(look.trace.path, root)} ({look.ledger.banner[0].code})"
        said.append(f"{len(lost)} of {plural(len(found.traces), 'trace')} lost data: {first}")
    said += [note.shown for note in found.notes if note.severity in GRAVE]
    lines = [*head.lines, *(Line(BULLET, f"! {note}") for note in said[:BANNER])]

    def page(shown: int) -> list[Table]:
        rest = len(found.traces) - shown
        left = f"and {plural(rest, 'trace')} more" if rest else ""
        table = Table(head.title, columns, found.traces, left, lines, top=shown)
        return [table, paragraphs("", more)]

    return fitted(page, len(found.traces), width)


def _device(look: Look) -> str:
    return "CPU" if look.cpu else device_text(look.trace)


_ON_CPU = (
    Column("host/step", lambda look: host_per_step(look), "ns"),
    Column("ops/step", lambda look: per_step(look, lambda step: step.ops)),
    Column("most self time in", lambda look: look.ops[0].name, WORDS),
    Column("do first", lambda look: look.verdict.first.partition(": ")[0] or None, WORDS),
)
BANNER = 2  # warnings that the page has room for; the rows have all
_NUMBERS = (
    Column("rank", lambda look: look.trace.rank, "number"),
    Column("events", lambda look: look.trace.events),
    Column("steps", lambda look: look.trace.steps),
    Column("kernels", lambda look: look.totals.kernels),
    Column("gpu busy", lambda look: look.totals.gpu_busy_ns, "ns"),
    Column("busy", lambda look: look.totals.busy_share, "share"),
    Column("host/step", lambda look: host_per_step(look), "ns"),
)


def _first(look: Look) -> tuple[str | None, float | None]:
    """What to do first with a trace, and the ns that it saves."""
    if look.step is not None and look.fixes:
        fix = look.fixes[0]
        return fix.order.partition(" (")[0], max(look.step.ns - fix.ns, 0)
    bounded = (each for each in look.findings if each.fix)
    said = next((each for each in bounded if look.verdict.first.startswith(each.fix)), None)
    if said is None:
        return None, None
    return said.fix.partition(" (")[0], said.at_most_ns


def sections(root: str, found: LookSet) -> list[Table]:
    """The whole page, in reading order; `root` is the folder or zip."""
    name = Column("trace", lambda look: _label(look.trace.path, root), WORDS)
    several = len({_device(look) for look in found.traces}) > 1  # else the head names it
    device = [Column("device", _device, WORDS)] if several else []

    def worst(look: Look) -> str:
        """The worst note above `info`, how many more; `!` where data was lost or is wrong."""
        notes = [note for note in look.ledger.notes if note.severity != "info"]
        if not notes:
            return "complete"
        more = f" +{len(notes) - 1}" if len(notes) > 1 else ""
        return f"{'! ' if notes[0].severity in GRAVE else ''}{notes[0].code}{more}"

    def largest(look: Look) -> Finding | None:
        return next((row for row in look.findings if row.state == "found"), None)

    def title_of(look: Look) -> str:
        return row.title if (row := largest(look)) else "nothing found"

    def saving(look: Look) -> str | None:
        return (saving_text(row) if (row := largest(look)) else "") or None

    findings = (
        name,
        Column("ledger", worst, WORDS),
        Column("largest finding", title_of, WORDS),
        Column("saves", saving, TEXT),
    )
    title = "Ledger, largest finding, and largest possible saving per step"
    left_out = [
        Line(BULLET, _label(each.path, root), f"{each.text} [{each.code}]")
        for each in found.left_out
    ]
    spread = spreads(found)
    ranks = (
        Column("", lambda each: each.what, WORDS),
        Column("least", lambda each: each.text(each.least), TEXT),
        Column("rank", lambda each: None if each.same else each.least_rank, "number"),
        Column("most", lambda each: each.text(each.most), TEXT),
        Column("rank", lambda each: None if each.same else each.most_rank, "number"),
        Column("most/least", "ratio"),
    )
    waits = (
        "Time in a collective includes waiting for its last rank: a rank with far less of it "
        "keeps the others waiting."
    )
    return filled(
        [
            _head(root, found),
            bulleted("", [f"! {note.shown}" for note in found.notes if note.severity in GRAVE]),
            Table("Traces", (name, *device, *_NUMBERS), found.traces),
            Table(title, findings, found.traces),
            Table(
                "Ranks, by largest difference (medians over the steps)",
                ranks,
                spread,
                waits if any("collectives" in each.what for each in spread) else "",
            ),
            Table("Not read: files named like traces that cannot be read", lines=left_out),
            bulleted("The set", [f"{note.severity}: {note.shown}" for note in found.notes]),
            paragraphs("", f"For one trace: foretrace look {shlex.quote(_example(found))}"),
        ]
    )


def _label(path: str, root: str) -> str:
    member = path.removeprefix(f"{root}::")
    return member if member != path else os.path.relpath(path, root)


def _head(root: str, found: LookSet) -> Table:
    counts = f"{plural(len(found.traces), 'trace')} · {len(found.left_out)} not read"
    devices = {_device(look) for look in found.traces}
    device = f" · {devices.pop()}" if len(devices) == 1 else ""
    rows: dict[tuple[str, str], IgnoredEntry] = {}
    for each in (row for look in found.traces for row in look.ignored):
        before = rows.get((each.kind, each.name))
        count = each.findings + (before.findings if before else 0)
        rows[each.kind, each.name] = structs.replace(each, findings=count)
    lines = [*lines_of(found), *ignored_lines([*rows.values()])]
    name = shorten(os.path.basename(root.rstrip("/")) or root, NAME)
    return Table(f"{name} · {counts}{device}", lines=lines)


def _example(found: LookSet) -> str:
    """The trace to look at by itself: the first with data loss, else the first."""
    first = next((look for look in found.traces if look.ledger.banner), found.traces[0])
    return first.trace.path


def recordings_text(overviews: Mapping[str, Overview]) -> str:
    """A table of all recordings, per step, with the times and the word of `foretrace look`."""

    def per_step_of(name: str) -> Callable[[tuple[str, Overview]], float | None]:
        return lambda each: per_step(each[1].look, lambda step: getattr(step, name))

    def bound(each: tuple[str, Overview]) -> str:
        labels = (line.label for line in each[1].lines)
        return next((label for label in labels if label in LABELS.values()), "")

    columns = (
        Column("recording", lambda each: each[0], WORDS),
        Column("kernels", per_step_of("kernels")),
        Column("memcpys", per_step_of("memcpys")),
        Column("memsets", per_step_of("memsets")),
        Column("gpu busy", per_step_of("gpu_busy_ns"), "ns"),
        Column(
            "step", lambda each: each[1].worth_ns / WORTH or None, "ns"
        ),  # as the verdict has it
        Column("host, profiled", per_step_of("cpu_ns"), "ns"),
        Column("", bound, WORDS),
    )
    devices = sorted({str(overview.look.trace.device) for overview in overviews.values()})
    title = f"{len(overviews)} recordings ({', '.join(devices)}), per step, without the profiler"
    # wide, so that no name is cut: a name is there to be typed
    return text([Table(title, columns, [*overviews.items()])], width=200)


def more_text(counts: Mapping[str, int]) -> str:
    """The recordings that are not in the table: how many of each rung."""
    rungs = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    return f"  and {sum(counts.values())} of the ladder (look --list RUNG lists them): {rungs}"


class Spread(Struct, frozen=True):
    """The least and the largest value over the ranks, and how to write one."""

    what: str
    text: Callable[[float | None], str]
    least: float
    least_rank: int
    most: float
    most_rank: int

    @property
    def same(self) -> bool:
        """Whether no rank differs."""
        return self.least == self.most

    @property
    def ratio(self) -> float | None:
        """Largest to least value."""
        return self.most / self.least if self.least else None


def lines_of(found: LookSet) -> list[Line]:
    """What the traces are to each other, and where the ranks of one job differ most."""
    if not found.job:
        text = "their headers and names state no common job; compare two: foretrace compare A B"
        return [Line("SEPARATE TRACES", text)]
    said = [Line("ONE JOB", plural(len(found.job), "rank"))]
    for worst in [each for each in spreads(found)[:1] if not each.same]:
        least = f"{worst.text(worst.least)} (rank {worst.least_rank})"
        most = f"{worst.text(worst.most)} (rank {worst.most_rank})"
        said.append(Line("DIFFER", f"{worst.what}: {least} to {most}, {ratio_text(worst.ratio)}"))
    return said


def spreads(found: LookSet) -> list[Spread]:
    """The largest difference first; empty unless these are ranks of one job, each there once."""
    job = set(found.job)
    ranks = [
        (look.trace.rank, look)
        for look in found.traces
        if look.trace.rank is not None and look.trace.path in job
    ]
    if len({rank for rank, _ in ranks}) < len(ranks):
        return []
    measured = []
    for what, shown, measure in MEASURES:
        known = [(value, rank) for rank, look in ranks if (value := measure(look)) is not None]
        # of equals, the first rank
        most = max(known, key=lambda pair: (pair[0], -pair[1]), default=(0, 0))
        if len(known) > 1 and most[0]:
            measured.append(Spread(what, shown, *min(known), *most))
    return sorted(measured, key=lambda spread: -(spread.ratio or 0))


def per_step(look: Look, measure: Callable[[StepRow], float | None]) -> float | None:
    """The median over the steps; None without steps, or when a step lacks the value."""
    values = [measure(step) for step in look.steps]
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def host_per_step(look: Look) -> float | None:
    """The median host time of a step."""
    return per_step(look, lambda step: step.cpu_ns)


def _collectives(look: Look) -> float | None:
    times = [
        row.total_ns / row.count * row.per_step
        for row in look.kernels
        if row.role == "comms" and row.per_step and row.total_ns is not None
    ]
    return sum(times) if times else None


_Text = Callable[[float | None], str]
MEASURES: tuple[tuple[str, _Text, Callable[[Look], float | None]], ...] = (
    ("host time per step", time_text, host_per_step),
    ("GPU busy per step", time_text, lambda look: per_step(look, lambda step: step.gpu_busy_ns)),
    ("kernels per step", count_text, lambda look: per_step(look, lambda step: step.kernels)),
    ("in collectives per step (mean)", time_text, _collectives),
    ("GPU busy in total", time_text, lambda look: None if look.steps else look.totals.gpu_busy_ns),
)
