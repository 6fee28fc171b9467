"""What a step would take with each fix, for people."""

from __future__ import annotations

import textwrap

from foretrace.base.units import time_text
from foretrace.schema.documents.look import FixEntry, StepTime
from foretrace.schema.documents.whatif import WhatIf
from foretrace.show.render.terminal import Section, stem

NO_FIX = "no known fix shortens this step by 3%"


def page(found: WhatIf, *, explain: bool) -> list[Section]:
    """The step now, a row for each fix, and the step with those that were chosen."""
    if found.step is None:
        return [Section("", labelled=[("UNKNOWN", found.reason)])]
    now = f"{stem(found.path)}: {_now(found.step, found.per)}"
    head = Section("", labelled=[("NOW", now)])
    if not found.fixes:
        return [head, Section("", [NO_FIX])]
    table = Section(
        "",
        head=["fix", "step", "interval", "faster"],
        rows=[[each.name, *_after(found.step, each)] for each in found.fixes],
    )
    # a cell of a table is cut where space is short: what to do stands below it
    said = [(each.name, f"{each.order}: {_reason(each)}") for each in found.fixes]
    reasons = Section("", labelled=said)
    manuals = (
        [Section(name, text.split("\n\n")) for name, text in found.manual.items()]
        if explain
        else []
    )
    return [head, table, reasons, *_together(found), *manuals]


def fixes_table(step: StepTime, fixes: list[FixEntry], per: str) -> Section:
    """The fixes of a report: the step before and after each, and why."""
    rows = [[fix.order, time_text(step.ns), *_after(step, fix), _reason(fix)] for fix in fixes]
    head = ["fix", "before", "after", "interval", "faster", "why"]
    now = [f"The step takes {_now(step, per)}.", *([] if fixes else [f"{NO_FIX.capitalize()}."])]
    return Section("Fixes: the step before and after", now, head=head, rows=rows, left=(0, 5))


def _now(step: StepTime, per: str) -> str:
    span = f"{time_text(step.low_ns)} to {time_text(step.high_ns)}"
    recorded = f"recorded {time_text(step.recorded_ns)}, replayed {time_text(step.replayed_ns)}"
    return f"about {time_text(step.ns)} {per} without the profiler ({span}); {recorded}"


def _after(step: StepTime, fix: FixEntry) -> list[str]:
    span = f"{time_text(fix.low_ns)} to {time_text(fix.high_ns)}"
    return [time_text(fix.ns), span, f"{step.ns / fix.ns:.2f}x"]


def _reason(fix: FixEntry) -> str:
    before = f"; first remove {fix.first}" if fix.first else ""
    return fix.why + before + (f"; check: {fix.risk}" if fix.risk else "")


def _together(found: WhatIf) -> list[Section]:
    if found.together_ns is None or found.step is None:
        return []
    faster = f"{found.step.ns / found.together_ns:.2f}x"
    text = f"about {time_text(found.together_ns)} with {', '.join(found.chosen)} ({faster})"
    return [Section("", labelled=[("TOGETHER", textwrap.shorten(text, 400))])]
