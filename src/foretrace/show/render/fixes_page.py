"""Rules and fixes for people: what a step would take with each fix, a forecast beside what came,
and one rule or fix explained, by its manual (`explain NAME`) and on a trace (`look --explain`).

The manual says nothing that the files of rules and fixes do not say.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from msgspec import convert
from msgspec.structs import replace

from foretrace.analyze import fixes, rules
from foretrace.analyze.guess.forecast import TEXT, asked
from foretrace.analyze.steering import FIX, RULE, check_names
from foretrace.base import plugins
from foretrace.base.units import DASH, plural, range_text, time_text
from foretrace.model import opening
from foretrace.model.trace import Trace
from foretrace.read.recordings import typed_as
from foretrace.schema.documents.explain import Manual, ManualEntry
from foretrace.schema.documents.forecast import Forecast
from foretrace.schema.documents.look import FindingEntry, FixEntry, Look, StepTime
from foretrace.schema.documents.whatif import WhatIf
from foretrace.show.overview.measured_step import saving_text
from foretrace.show.overview.predictions import no_fix
from foretrace.show.overview.sentences import ignored_lines
from foretrace.show.render.terminal import Section, stem


def whatif_page(found: WhatIf, *, explain: bool) -> list[Section]:
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
    told = found.manual.items() if explain else ()
    manuals = [Section(name, text.split("\n\n")) for name, text in told]
    together = []
    if found.together_ns is not None:
        faster = f"{found.step.ns / found.together_ns:.2f}x"
        text = f"about {time_text(found.together_ns)} with {', '.join(found.chosen)} ({faster})"
        together = [Section("", labelled=[("TOGETHER", textwrap.shorten(text, 400))])]
    return [head, table, reasons, *together, *ignored, *manuals]


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
    return f"about {time_text(step.ns)} {per} without the profiler ({_interval(step)}); {recorded}"


def _after(step: StepTime, fix: FixEntry) -> list[str]:
    return [time_text(fix.ns), _interval(fix), f"{step.ns / fix.ns:.2f}x"]


def _interval(of: StepTime | FixEntry) -> str:
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


# the head of a paragraph in a rule's or a fix's file, and the word in front of it here
_HEADS = {
    "What it shows": "LOOKS FOR",
    "What it looks for": "LOOKS FOR",
    "Why it matters": "MATTERS",
    "How it is computed": "FIRES",
    "When it is wrong": "NOT KNOWN",
    "What must hold": "MUST HOLD",
    "What changes": "CHANGES",
}


def manual(names: Sequence[str]) -> Manual:
    """These rules and fixes with an example of each rule, or all without any; raises `UsageError`
    for a name that none has.
    """
    check_names(names, "explain")
    every, known = list[ManualEntry](), rules.rules()
    for rule in known:
        needs = [advice for need, (_, advice) in rules.NEEDS.items() if need in rule.needs]
        said = RULE, rule.name, rule.title, paragraphs(plugins.manual(rule.check)), needs
        every.append(ManualEntry(*said, fixes=[*rule.fixes], example=rule.example))
    for fix in fixes.fixes():
        needs = [rules.NEEDS[need][1] if need in rules.NEEDS else need for need in fix.needs]
        said = FIX, fix.name, fix.title, paragraphs(plugins.manual(fix.find)), needs
        leading = [rule.name for rule in known if fix.name in rule.fixes]
        every.append(ManualEntry(*said, rules=leading))
    chosen = (each for name in names for each in every if each.name == name)
    return Manual([_shown(each) for each in chosen] if names else every)


def paragraphs(told: Sequence[str]) -> dict[str, str]:
    """The paragraphs of a docstring by their heads: `What it shows`; the first has none."""
    found: dict[str, str] = {"": told[0]}
    for text in told[1:]:
        head, _, rest = text.partition(": ")
        found[head] = rest
    return found


def _shown(entry: ManualEntry) -> ManualEntry:
    """With what the rule says about the recording that shows it."""
    rule = next((each for each in rules.rules() if each.name == entry.name), None)
    if rule is None or not rule.example:
        return entry
    seen = rules.run(rule, opening.open(rule.example))
    return replace(entry, finding=convert(seen[0], FindingEntry, from_attributes=True))


def manual_page(found: Manual, *, listed: bool) -> list[Section]:
    """The manual of what was named, or a line for every rule and fix."""
    if not listed:
        return [section for each in found.entries for section in _manual(each)]
    tables = []
    for kind, many in ((RULE, "rules"), (FIX, "fixes")):
        rows = [[each.name, each.title] for each in found.entries if each.kind == kind]
        head = [kind, "looks for" if kind == RULE else "does"]
        title = plural(len(rows), kind, many)
        tables.append(Section(title, head=head, rows=rows, left=(0, 1)))
    return [*tables, Section("", ["more: foretrace explain NAME; on a trace: look --explain NAME"])]


def _manual(entry: ManualEntry) -> list[Section]:
    lines = [(_HEADS.get(head, head.upper()), text) for head, text in entry.manual.items() if head]
    lines += [("NEEDS", text) for text in entry.needs]
    lines += [("FIX", ", ".join(entry.fixes))] if entry.fixes else []
    lines += [("RULES", ", ".join(entry.rules))] if entry.rules else []
    finding = entry.finding
    if finding is not None:
        told = f"foretrace look {entry.example} --explain {entry.name}: {finding.title}"
        lines += [("EXAMPLE", told), *([("DO", finding.fix)] if finding.fix else [])]
    elif entry.kind == RULE:
        lines += [("EXAMPLE", "no shipped recording shows it")]
    return [Section(f"{entry.name} ({entry.kind}): {entry.title}", labelled=lines)]


def explained(look: Look, name: str) -> list[Section]:
    """What a rule found or a fix predicts on this trace, and the manual."""
    check_names([name], "--explain")
    every = {each.name: plugins.manual(each.check) for each in rules.rules()}
    every |= {each.name: plugins.manual(each.find) for each in fixes.fixes()}
    findings = [_finding(row) for row in look.findings if row.rule == name]
    predicted = [_fix(look, row) for row in look.fixes if row.name == name]
    ignored = any(row.name == name for row in look.ignored)
    told = "It applies, and is ignored." if ignored else "It does not apply to this trace."
    nothing = [] if findings or predicted else [Section("", [told])]
    return [*findings, *predicted, *nothing, Section(f"Manual of {name}", every[name])]


def _finding(row: FindingEntry) -> Section:
    saving = [("saves", text)] if (text := saving_text(row)) else []
    seen = []
    for key, value in row.evidence.items():
        is_time = key.endswith("_ns") and isinstance(value, int | float)
        seen.append((key.removesuffix("_ns"), time_text(value) if is_time else str(value)))
    fix = [("fix", row.fix)] if row.fix else []
    told = [text for text in (row.title, row.detail) if text]
    return Section(f"{row.rule}: {row.state}", told, [*fix, *saving, *seen])


def _fix(look: Look, row: FixEntry) -> Section:
    now = time_text(look.step.ns) if look.step else ""
    lines = [("do", row.order), ("seen", row.why)]
    lines.append(("step", f"{now} to about {time_text(row.ns)} ({_interval(row)})"))
    lines += [("first", f"remove {row.first}")] if row.first else []
    lines += [("check", row.risk)] if row.risk else []
    return Section(row.name, labelled=lines)
