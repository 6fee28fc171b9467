"""What a step takes with each fix, and a forecast beside what came, for people."""

from __future__ import annotations

import textwrap

from foretrace.analyze.guess.forecast import TEXT, asked
from foretrace.base.units import DASH, range_text, time_text
from foretrace.model.trace import Trace
from foretrace.read.recordings import typed_as
from foretrace.schema.documents.guess import Forecast
from foretrace.schema.documents.look import FixEntry, Look, PredictedFixes, StepTime
from foretrace.show.overview.predictions import no_fix
from foretrace.show.overview.sentences import ignored_lines
from foretrace.show.render.terminal import Section, stem


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
    rows, columns = list[list[str]](), ["", "A", "you", "", "replay", "", "B"]
    for each in found.entries:
        text, cells = TEXT[each.name], list[str]()
        for said in (each.you, each.replay):
            cells += [range_text(said.low, said.high, text), said.verdict] if said else [DASH, ""]
        rows.append([_NAMES[each.name], text(each.a), *cells, text(each.b)])
    beside = f"{_BESIDE}; " if any(each.name == "bytes" for each in found.entries) else ""
    sides = {
        "you": [each.you for each in found.entries if each.you],
        "the replay": [each.replay for each in found.entries if each.replay],
    }
    counts = [
        f"{who} {sum(each.verdict == 'hit' for each in told)} of {len(told)}"
        for who, told in sides.items()
        if told
    ]
    score = beside + (", ".join(counts) or "nobody said anything")
    table = Section("", head=columns, rows=rows, left=(0, 3, 5), after=score)
    wrong = [each.name for each in found.entries if each.replay and each.replay.verdict == "miss"]
    notes = [f"{_NAMES[name].rstrip('*')}: the replay {_MODEL[name]}" for name in wrong]
    notes = notes if found.fix == "compile" else []
    more = f"more: foretrace compare {typed_as(found.a)} {typed_as(found.b)} --kernels"
    return [Section("", labelled=heads), table, Section("", [*notes, more])]
