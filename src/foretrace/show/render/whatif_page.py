"""What a step would take with each fix, for people."""

from __future__ import annotations

import textwrap

from foretrace.base.units import time_text
from foretrace.schema.documents.look import FixEntry, StepTime
from foretrace.schema.documents.whatif import WhatIf
from foretrace.show.render.terminal import Section, stem


def page(found: WhatIf, *, explain: bool) -> list[Section]:
    """The step now, a row for each fix, and the step with those that were chosen."""
    if found.step is None:
        return [Section("", labelled=[("UNKNOWN", found.reason)])]
    head = Section("", labelled=[("NOW", _now(found, found.step))])
    if not found.fixes:
        return [head, Section("", ["no known fix shortens this step by 3%"])]
    table = Section(
        "",
        head=["fix", "step", "interval", "faster", "what to do"],
        rows=[_cells(found.step, each) for each in found.fixes],
        left=(0, 4),
    )
    reasons = Section("", labelled=[(each.name, _reason(each)) for each in found.fixes])
    manuals = (
        [Section(name, text.split("\n\n")) for name, text in found.manual.items()]
        if explain
        else []
    )
    return [head, table, reasons, *_together(found), *manuals]


def _now(found: WhatIf, step: StepTime) -> str:
    span = f"{time_text(step.low_ns)} to {time_text(step.high_ns)}"
    recorded = f"recorded {time_text(step.recorded_ns)}, replayed {time_text(step.replayed_ns)}"
    return (
        f"{stem(found.path)}: about {time_text(step.ns)} {found.per} without the profiler "
        f"({span}); {recorded}"
    )


def _cells(step: StepTime, fix: FixEntry) -> list[str]:
    span = f"{time_text(fix.low_ns)} to {time_text(fix.high_ns)}"
    return [fix.name, time_text(fix.ns), span, f"{step.ns / fix.ns:.2f}x", fix.order]


def _reason(fix: FixEntry) -> str:
    before = f"; first remove {fix.first}" if fix.first else ""
    return fix.why + before + (f"; check: {fix.risk}" if fix.risk else "")


def _together(found: WhatIf) -> list[Section]:
    if found.together_ns is None or found.step is None:
        return []
    faster = f"{found.step.ns / found.together_ns:.2f}x"
    text = f"about {time_text(found.together_ns)} with {', '.join(found.chosen)} ({faster})"
    return [Section("", labelled=[("TOGETHER", textwrap.shorten(text, 400))])]
