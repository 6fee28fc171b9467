"""What a step would take with each fix, for people; a forecast beside what came."""

from __future__ import annotations

import textwrap

from foretrace.analyze.guess.forecast import TEXT, asked
from foretrace.base.units import DASH, time_text
from foretrace.model.trace import Trace
from foretrace.read.recordings import typed_as
from foretrace.schema.documents.forecast import Forecast, ForecastEntry, MarkedForecast
from foretrace.schema.documents.look import FixEntry, StepTime
from foretrace.schema.documents.whatif import WhatIf
from foretrace.show.overview.sentences import ignored_lines
from foretrace.show.render.terminal import Section, stem

NO_FIX = "no known fix shortens this step by 3%"


def page(found: WhatIf, *, explain: bool) -> list[Section]:
    """The step now, a row for each fix, and the step with those that were chosen."""
    if found.step is None:
        return [Section("", labelled=[("UNKNOWN", found.reason)])]
    now = f"{stem(found.path)}: {_now(found.step, found.per)}"
    head = Section("", labelled=[("NOW", now)])
    left = [(line.label, line.text) for line in ignored_lines(found.ignored)]
    ignored = [Section("", labelled=left)] if left else []
    if not found.fixes:
        none = NO_FIX.replace("no ", "no other ") if ignored else NO_FIX
        return [head, Section("", [none]), *ignored]
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
    return [head, table, reasons, *_together(found), *ignored, *manuals]


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


_NAMES = {
    "kernels": "kernels",
    "bytes": "traffic*",
    "gpu_ns": "GPU busy",
    "step_ns": "step, no profiler",
}
_KNOWN = {
    "kernels": "kernels {} per step",
    "bytes": "{} moved by the kernels beside matmuls and attention",
    "gpu_ns": "GPU busy {}",
    "step_ns": "step {} without the profiler",
}
_BESIDE = "* memory traffic of the kernels beside matmuls and attention"
# why the replay of compiled code can be wrong: what it takes for granted
_MODEL = {
    "kernels": "makes one kernel of every group that can fuse, one for each reduction in it",
    "bytes": "counts each input and output of a fused group once, the least that must move",
    "gpu_ns": "gives a fused kernel 75% of the bandwidth",
    "step_ns": "gives compiled code a fixed host time for its call and each kernel",
}


def before(a: Trace, then: str) -> list[Section]:
    """What the reader may know of A, before the questions."""
    known = ", ".join(_KNOWN[each.name].format(TEXT[each.name](each.now)) for each in asked(a))
    about = [("A", f"{stem(a.path)}: {known}"), ("B", f"{then}: the same program after the change")]
    return [Section("", labelled=about)]


def forecast_page(found: Forecast) -> list[Section]:
    """A row for each quantity, then what the replay took for granted where it missed."""
    heads = [("A", stem(found.a)), ("B", f"{stem(found.b)}: {found.order or found.reason}")]
    rows = [_row(each) for each in found.entries]
    columns = ["", "A", "you", "", "replay", "", "B"]
    beside = f"{_BESIDE}; " if any(each.name == "bytes" for each in found.entries) else ""
    sides = {
        "you": [each.you for each in found.entries if each.you],
        "the replay": [each.replay for each in found.entries if each.replay],
    }
    counts = [
        f"{who} {sum(each.verdict == 'hit' for each in said)} of {len(said)}"
        for who, said in sides.items()
        if said
    ]
    score = beside + (", ".join(counts) or "nobody said anything")
    table = Section("", head=columns, rows=rows, left=(0, 3, 5), after=score)
    wrong = [each.name for each in found.entries if each.replay and each.replay.verdict == "miss"]
    notes = [f"{_NAMES[name].rstrip('*')}: the replay {_MODEL[name]}" for name in wrong]
    notes = notes if found.fix == "compile" else []
    more = f"more: foretrace compare {typed_as(found.a)} {typed_as(found.b)} --kernels"
    return [Section("", labelled=heads), table, Section("", [*notes, more])]


def _row(entry: ForecastEntry) -> list[str]:
    text = TEXT[entry.name]
    said = [cell for each in (entry.you, entry.replay) for cell in _said(entry.name, each)]
    return [_NAMES[entry.name], text(entry.a), *said, text(entry.b)]


def _said(name: str, marked: MarkedForecast | None) -> tuple[str, str]:
    if marked is None:
        return DASH, ""
    low, high = TEXT[name](marked.low), TEXT[name](marked.high)
    number, _, unit = low.partition(" ")
    first = number if high.endswith(f" {unit}") else low
    return low if low == high else f"{first} to {high}", marked.verdict
