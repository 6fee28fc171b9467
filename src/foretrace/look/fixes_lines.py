"""What a step takes with each fix, for people."""

from __future__ import annotations

import textwrap

from foretrace.base.tables import TEXT, WORDS, Column, Line, Table, paragraphs
from foretrace.base.terminal import stem
from foretrace.base.units import time_text
from foretrace.look.documents import FixEntry, Look, PredictedFixes, StepTime
from foretrace.look.predictions import no_fix
from foretrace.look.sentences import ignored_lines


def page_of_fixes(found: PredictedFixes) -> list[Table]:
    """The step now, a row for each fix, and the step with those that were chosen."""
    if found.step is None:
        return [Table("", lines=[Line("UNKNOWN", found.reason)])]
    now = f"{stem(found.path)}: {_now(found.step, found.per)}"
    head = Table("", lines=[Line("NOW", now)])
    left = [*ignored_lines(found.ignored)]
    ignored = [Table("", lines=left)] if left else []
    if not found.fixes:
        return [head, paragraphs("", no_fix([found.reason], other=bool(left))), *ignored]
    table = Table("", (Column("fix", "name", WORDS), *_after(found.step, "step")), found.fixes)
    # a cell of a table is cut where space is short: what to do stands below it
    said = [Line(each.name, f"{each.order}: {_reason(each)}") for each in found.fixes]
    together = []
    if found.together_ns is not None:
        faster = f"{found.step.ns / found.together_ns:.2f}x"
        text = f"about {time_text(found.together_ns)} with {', '.join(found.chosen)} ({faster})"
        together = [Table("", lines=[Line("TOGETHER", textwrap.shorten(text, 400))])]
    return [head, table, Table("", lines=said), *together, *ignored]


def fixes_table(step: StepTime, look: Look, per: str) -> Table:
    """The fixes of a report: the step before and after each, and why."""
    none = no_fix([row.detail for row in look.findings])
    columns = (
        Column("fix", "order", WORDS),
        Column("before", lambda _: step.ns, "ns"),
        *_after(step, "after"),
        Column("why", _reason, WORDS),
    )
    now = [Line("", f"The step takes {_now(step, per)}.")]
    now += [] if look.fixes else [Line("", f"{none[:1].upper()}{none[1:]}.")]
    return Table("Fixes: the step before and after", columns, look.fixes, lines=now)


def _after(step: StepTime, name: str) -> tuple[Column, ...]:
    return (
        Column(name, "ns", "ns"),
        Column("interval", interval, TEXT),
        Column("faster", lambda fix: step.ns / fix.ns, "ratio"),
    )


def _now(step: StepTime, per: str) -> str:
    recorded = f"recorded {time_text(step.recorded_ns)}, replayed {time_text(step.replayed_ns)}"
    return f"about {time_text(step.ns)} {per} without the profiler ({interval(step)}); {recorded}"


def interval(of: StepTime | FixEntry) -> str:
    """`1.0 to 1.9 ms`: where the step lies nine times of ten."""
    return f"{time_text(of.low_ns)} to {time_text(of.high_ns)}"


def _reason(fix: FixEntry) -> str:
    before = f"; first remove {fix.first}" if fix.first else ""
    return fix.why + before + (f"; check: {fix.risk}" if fix.risk else "")
