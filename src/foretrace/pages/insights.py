"""What a page says first of one trace: what bounds a step, where its time goes, the fixes and the
findings with their place on the timeline. All of it is what `look` says, as data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from foretrace.base.tables import WORDS, Column, Line, Table
from foretrace.base.terminal import plain
from foretrace.base.units import count_text, percent_text, time_text
from foretrace.look.documents import Composition, Finding, FixEntry, GroupRow, Look, Overview
from foretrace.look.fixes import as_uncertain
from foretrace.look.groups import RECORDING, group_rows, of_recording
from foretrace.look.lines import fixes_table, folded, sections
from foretrace.look.measured_step import COMPUTES, cpu_groups, saving_text
from foretrace.look.rules import rules
from foretrace.look.savings import code_in, next_fix
from foretrace.pages.page_tables import Bar, TableData, shown
from foretrace.pages.timeline import Outline
from foretrace.trace.trace import Trace

ROWS = 6  # of where the time goes
FILTERS_GROUPS, BETWEEN = "= ", " | "  # as `web/src/core/flame.ts` reads them
NOTHING = "the trace has no step whose time a fix could shorten"
FIX = "fix_"  # before the name of a fix, where a page names what is selected
FIRST, THEN = "DO FIRST", "THEN"  # the words of the first screen


class Place(Struct, frozen=True):
    """Where something is on the timeline; times are ns from the first event.

    `shades` are gaps (start, end, GPU), `events` what to frame (event, start, end, and the number
    of its name), `frame` the stretch that shows them: those of one step, where there are steps.
    """

    frame: tuple[int, int] | None
    shades: list[tuple[int, int, int]]
    events: list[tuple[int, int, int, int]]


class Insight(Struct, frozen=True, omit_defaults=True):
    """A fix or a finding, and its place.

    `key` names it in an address: a rule, with a number behind it where a rule found more than one
    thing. `about` is the rule, or "fix"; `label` the word of the first screen. `saves` is the step
    before and after a fix, or a bound. `gaps` is how many there are where not all have a shade.
    """

    key: str
    title: str
    detail: str
    about: str
    place: Place
    label: str = ""
    saves: str = ""
    todo: str = ""
    code: str = ""
    bar: Bar | None = None
    base: float = 0.0
    gaps: int | None = None


class Part(Struct, frozen=True):
    """A part of a step, as `TimePart` of look, with its time and its share as text."""

    kind: str
    name: str
    share: float
    text: str
    percent: str


class WhereRow(Struct, frozen=True):
    """Where time goes: a group, or the rest; `filter` leaves its work alone on the timeline."""

    name: str
    share: float
    time: str
    percent: str
    about: str
    filter: str


class Basis(Struct, frozen=True):
    """What the time of one step (call, recording) is made of, and its groups."""

    per: str
    label: str
    unit: str
    parts: list[Part]
    rows: list[WhereRow]


class Answers(Struct, frozen=True):
    """`word` and `text` are the verdict, `first` and `then` the lines of the first screen (`first`
    also says that there is nothing to do), `bases` the step and the recording; one of them where
    there is only one.
    """

    word: str
    text: str
    first: str
    then: str
    bases: list[Basis]


def answers(trace: Trace, overview: Overview) -> Answers:
    """The answers of one trace."""
    look, lines = overview.look, overview.lines
    verdict = look.verdict
    word = next((line.label for line in lines if line.text == verdict.text), "UNKNOWN")
    first = next((line.text for line in lines if line.label == FIRST), verdict.first)
    first = first.replace(" (--findings)", "") or NOTHING  # that is an option of the terminal
    told = plain(verdict.text), plain(first), plain(verdict.then)
    return Answers(word.removesuffix("-BOUND"), *told, [*_bases(trace, look)])


def insights(trace: Trace, overview: Overview, outline: Outline) -> list[Insight]:
    """Fixes in the order of the terminal, each once, then what was found."""
    look = overview.look
    return [*_fixes(trace, look, outline), *_findings(trace, look.findings, outline)]


def _fixes(trace: Trace, look: Look, outline: Outline) -> Iterator[Insight]:
    acts = {each.name: each.fixes for each in rules()}
    then, step = next_fix(look.fixes), look.step
    ordered = [*look.fixes[:1], *([then] if then else [])]
    labels = dict(zip((fix.name for fix in ordered), (FIRST, THEN), strict=False))
    ordered += [fix for fix in look.fixes if fix.name not in labels]
    for fix in ordered:
        label = labels.get(fix.name, "")
        saves, bar = _saving(look, fix, after=label == THEN)
        detail = f"{fix.why}; without {fix.first}" if fix.first else fix.why
        detail += f". Check: {fix.risk}" if fix.risk else ""
        mine = [row for row in look.findings if _acts_on(row, fix.name, acts)]
        gaps = [gap for row in mine for gap in row.ranges]
        events = list(fix.events) or [event for row in mine for event in row.events]
        yield Insight(
            *(f"{FIX}{fix.name}", plain(fix.order), plain(detail), "fix"),
            place_of(trace, events, gaps, outline),
            *(label, saves),
            code=plain(fix.code),
            bar=bar,
            base=step.ns if step else 0.0,
        )
    if look.fixes:
        return
    # below them what only bounds a saving
    orders = [text for text in (look.verdict.first, look.verdict.then) if text]
    for at, text in enumerate(orders):
        order, _, why = plain(text).partition(": ")
        row = next((row for row in look.findings if row.fix and text.startswith(row.fix)), None)
        bound = None if row is None or look.cpu else row.at_most_ns
        place = place_of(trace, row.events if row else [], row.ranges if row else [], outline)
        saves = "" if bound is None else f"saves at most {time_text(bound)}"
        said = f"{FIX}{at}", order, why, "fix"
        yield Insight(*said, place, (FIRST, THEN)[at], saves, code=code_in(order))


def _acts_on(row: Finding, fix: str, acts: dict[str, tuple[str, ...]]) -> bool:
    return row.state == "found" and fix in acts.get(row.rule, ())


def _saving(look: Look, fix: FixEntry, *, after: bool) -> tuple[str, Bar | None]:
    """The step with a fix, and its bar; of the second fix that with both."""
    if look.step is None:
        return "", None
    if after and fix.after_ns is not None:  # as uncertain as the more uncertain of the two
        low, high = as_uncertain(fix.after_ns, (look.fixes[0], fix))
        bar = Bar(fix.after_ns, low, high, "then")
        return f"after that about {time_text(fix.after_ns)}", bar
    span = f"({time_text(fix.low_ns)} to {time_text(fix.high_ns)})"
    text = f"{time_text(look.step.ns)} → about {time_text(fix.ns)} {span}"
    return text, Bar(fix.ns, fix.low_ns, fix.high_ns, "then")


def _findings(trace: Trace, findings: Sequence[Finding], outline: Outline) -> Iterator[Insight]:
    counts, per = Counter[str](), " per step" if outline.steps else " in the recording"
    for row in findings:
        counts[row.rule] += 1
        if row.state != "found":
            continue
        number = counts[row.rule]
        saving, gaps = saving_text(row), row.evidence.get("gaps")
        yield Insight(
            row.rule if number == 1 else f"{row.rule}_{number}",
            *(plain(row.title), plain(row.detail), row.rule.replace("_", " ")),
            place_of(trace, row.events, row.ranges, outline),
            saves=f"saves {saving}{per}" if saving else "",
            todo=plain(row.fix),
            gaps=gaps if isinstance(gaps, int) else None,
        )


def place_of(
    trace: Trace, of: Sequence[int], gaps: Sequence[tuple[int, int, int]], outline: Outline
) -> Place:
    """Where events and gaps are."""
    origin, host = outline.origin_ns, trace.host
    shades = [(start - origin, end - origin, gpu) for start, end, gpu in gaps]
    rows = np.array([event for event in of if event < host.count], np.int64)
    rows = rows[host.lasting[rows]]
    columns = rows, host.start[rows] - origin, host.end[rows] - origin, host.name[rows]
    events = list(zip(*(column.tolist() for column in columns), strict=True))
    stretches = [each[:2] for each in shades] or [each[1:3] for each in events]
    if not stretches:
        return Place(None, shades, events)
    # those in the step that the page opens at, else in the step of the first one, else all
    steps = [] if outline.step is None else [outline.steps[outline.step]]
    steps += [step for step in outline.steps if step.start <= stretches[0][0] < step.last]
    for step in steps:
        inside = [one for one in stretches if step.start < one[1] and one[0] < step.last]
        if inside:
            stretches = inside
            break
    frame = min(start for start, _ in stretches), max(end for _, end in stretches)
    return Place(frame, shades, events)


def findings_tables(overview: Overview, found: Sequence[Insight]) -> list[TableData]:
    """The first screen's lines, the step before and after each fix, what was found, and the rest of
    what `look --findings` says.
    """
    look, fixes = overview.look, []
    lines = [Line(line.label, line.text.replace(" (--findings)", "")) for line in overview.lines]
    if look.step is not None:
        bars = [Bar(fix.ns, fix.low_ns, fix.high_ns, "then") for fix in look.fixes]
        table = fixes_table(look.step, look, overview.per)
        fixes = [shown(table, bars=bars, base=look.step.ns)]
    columns = (
        Column("finding", "title", WORDS),
        Column("saves", lambda row: row.saves.removeprefix("saves "), WORDS),
        Column("what was seen", "detail", WORDS),
        Column("what to do", "todo", WORDS),
    )
    rows = [each for each in found if each.about != "fix"]
    listed = shown(Table("Findings", columns, rows), to=[f"finding {each.key}" for each in rows])
    _, *rest = sections(overview, {"findings"}, 0)
    others = [shown(each) for each in rest if not each.title.startswith("Findings")]
    return [shown(Table("", lines=lines, more=overview.notes)), *fixes, listed, *others]


def _bases(trace: Trace, look: Look) -> Iterator[Basis]:
    made = look.composition
    if made is None:
        return
    if look.cpu:
        # ops that compute are on the timeline by name
        computes = {op.name for op in look.cpu if op.does == COMPUTES}
        rows = six(cpu_groups(look.cpu))
        names = [row.name if row.name in computes else "" for row in rows]
        yield _basis(made, "CPU", rows, names)
        return
    yield _basis(made, "GPU", *_groups(trace, look.groups))
    if made.per != RECORDING and (whole := of_recording(trace)) is not None:
        yield _basis(whole, "GPU", *_groups(trace, group_rows(trace)))


def _basis(made: Composition, unit: str, rows: list[GroupRow], filters: list[str]) -> Basis:
    whole = made.wall_ns or 1
    parts = [
        Part(
            each.kind, each.name, each.ns / whole, time_text(each.ns), percent_text(each.ns / whole)
        )
        for each in made.parts
    ]
    recorded = f", recorded {time_text(made.recorded_ns)} with the profiler"
    label = f"{time_text(made.wall_ns)} {made.per}{recorded if made.recorded_ns else ''}"
    where = []
    for row, name in zip(rows, filters, strict=True):
        about = ", ".join(
            filter(None, (f"{count_text(row.count)}×" if row.count else "", plain(row.limited_by)))
        )
        said = time_text(row.time_ns), percent_text(row.share), about, plain(name)
        where.append(WhereRow(plain(row.name), row.share, *said))
    return Basis(made.per, label, unit, parts, where)


def _groups(trace: Trace, groups: Sequence[GroupRow]) -> tuple[list[GroupRow], list[str]]:
    rows, known = six(groups), trace.grouped.names
    rest = [row.name for row in groups if row not in rows]
    names = [[row.name] if row in groups else rest for row in rows]
    filters = [
        FILTERS_GROUPS + BETWEEN.join(plain_group(name, known) for name in each) for each in names
    ]
    return rows, filters


def six(groups: Sequence[GroupRow]) -> list[GroupRow]:
    """Six rows at most, the rest as one."""
    return list(groups) if len(groups) <= ROWS else folded(groups, ROWS - 1)


def plain_group(name: str, known: Sequence[str]) -> str:
    """The group of a shown name: `GEMM` of `GEMM, M=8`, `attention` of `attention (FA2)`."""
    fits = [each for each in known if name == each or name.startswith((f"{each}, M=", f"{each} ("))]
    return max(fits, key=len, default=name)
