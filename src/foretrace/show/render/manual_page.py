"""What words mean, for people (`explain WORD`), and a rule or fix on a trace (`look --explain`)."""

from __future__ import annotations

from foretrace.analyze import fixes, rules
from foretrace.analyze.steering import FIX, RULE, check_names
from foretrace.base import plugins
from foretrace.base.units import plural, time_text
from foretrace.schema.documents.explain import Manual, ManualEntry
from foretrace.schema.documents.look import FindingEntry, FixEntry, Look
from foretrace.show.overview.manual import DOCUMENT, QUANTITY
from foretrace.show.overview.measured_step import saving_text
from foretrace.show.render.fixes_page import interval
from foretrace.show.render.terminal import Section

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
# plural, and what the second column says
_KINDS = {
    RULE: ("rules", "looks for"),
    FIX: ("fixes", "does"),
    QUANTITY: ("quantities", "what predictions say of it"),
    DOCUMENT: ("documents", "holds"),
}


def manual_page(found: Manual, *, listed: bool) -> list[Section]:
    """What the words mean, or a line for everything that has a name."""
    if not listed:
        pages = [section for each in found.entries for section in _manual(each)]
        for kernel in found.kernels or ():
            parts = [(part.text, part.meaning) for part in kernel.parts]
            pages.append(Section(f"{kernel.short} (kernel name)", labelled=parts))
        return pages
    tables = []
    for kind, (many, said) in _KINDS.items():
        rows = [[each.name, each.title] for each in found.entries if each.kind == kind]
        tables.append(
            Section(plural(len(rows), kind, many), head=[kind, said], rows=rows, left=(0, 1))
        )
    others = "an op (aten::addmm), a word that predictions count (gemm) or a kernel name"
    more = f"more: foretrace explain WORD, also {others}; on a trace: look --explain NAME"
    return [*tables, Section("", [more])]


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
    lines.append(("step", f"{now} to about {time_text(row.ns)} ({interval(row)})"))
    lines += [("first", f"remove {row.first}")] if row.first else []
    lines += [("check", row.risk)] if row.risk else []
    return Section(row.name, labelled=lines)
