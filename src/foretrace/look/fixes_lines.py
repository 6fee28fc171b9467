"""What a step takes with each fix, for people."""

from __future__ import annotations

import textwrap

from foretrace.base.terminal import Section, stem
from foretrace.base.units import time_text
from foretrace.look.documents import FixEntry, Look, PredictedFixes, StepTime
from foretrace.look.predictions import no_fix
from foretrace.look.sentences import ignored_lines


def page_of_fixes(found: PredictedFixes) -> list[Section]:
    """The step now, a row for each fix, and the step with those that were chosen."""
    if found.step is None:
        return [Section("", labelled=[("UNKNOWN", found.reason)])]
    now = f"{stem(found.path)}: {_now(found.step, found.per)}"
    head = Section("", labelled=[("NOW", now)])
    left = [(line.label, line.text) for line in ignored_lines(found.ignored)]
    ignored = [Section("", labelled=left)] if left else []
    if not found.fixes:
        none = no_fix([found.reason], other=bool(ignored))
        return [head, Section("", [none]), *ignored]
    table = Section(
        "",
        head=["fix", "step", "interval", "faster"],
        rows=[[each.name, *_after(found.step, each)] for each in found.fixes],
    )
    # a cell of a table is cut where space is short: what to do stands below it
    said = [(each.name, f"{each.order}: {_reason(each)}") for each in found.fixes]
    reasons = Section("", labelled=said)
    together = []
    if found.together_ns is not None:
        faster = f"{found.step.ns / found.together_ns:.2f}x"
        text = f"about {time_text(found.together_ns)} with {', '.join(found.chosen)} ({faster})"
        together = [Section("", labelled=[("TOGETHER", textwrap.shorten(text, 400))])]
    return [head, table, reasons, *together, *ignored]


def fixes_table(step: StepTime, look: Look, per: str) -> Section:
    """The fixes of a report: the step before and after each, and why."""
    found, none = look.fixes, no_fix([row.detail for row in look.findings])
    rows = [[fix.order, time_text(step.ns), *_after(step, fix), _reason(fix)] for fix in found]
    head = ["fix", "before", "after", "interval", "faster", "why"]
    now = [
        f"The step takes {_now(step, per)}.",
        *([] if found else [f"{none[:1].upper()}{none[1:]}."]),
    ]
    return Section("Fixes: the step before and after", now, head=head, rows=rows, left=(0, 5))


def _now(step: StepTime, per: str) -> str:
    recorded = f"recorded {time_text(step.recorded_ns)}, replayed {time_text(step.replayed_ns)}"
    return f"about {time_text(step.ns)} {per} without the profiler ({interval(step)}); {recorded}"


def _after(step: StepTime, fix: FixEntry) -> list[str]:
    return [time_text(fix.ns), interval(fix), f"{step.ns / fix.ns:.2f}x"]


def interval(of: StepTime | FixEntry) -> str:
    """`1.0 to 1.9 ms`: where the step lies nine times of ten."""
    return f"{time_text(of.low_ns)} to {time_text(of.high_ns)}"


def _reason(fix: FixEntry) -> str:
    before = f"; first remove {fix.first}" if fix.first else ""
    return fix.why + before + (f"; check: {fix.risk}" if fix.risk else "")
