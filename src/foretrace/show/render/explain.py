"""`look --explain NAME`: the evidence of one rule or fix, and its manual."""

from __future__ import annotations

import difflib
from typing import Any

from foretrace.analyze import fixes, rules
from foretrace.base import plugins
from foretrace.base.errors import UsageError
from foretrace.base.units import time_text
from foretrace.schema.documents.look import FindingEntry, FixEntry, Look
from foretrace.show.overview.fixes import saving_text
from foretrace.show.render.terminal import Section


def explained(look: Look, name: str) -> list[Section]:
    """What a rule found or a fix predicts on this trace, and the manual."""
    every = {each.name: plugins.manual(each.check) for each in rules.rules()}
    every |= {each.name: plugins.manual(each.find) for each in fixes.fixes()}
    if name not in every:
        near = difflib.get_close_matches(name, every, 3)
        known = f"did you mean {' or '.join(near)}?" if near else "--findings lists the rules"
        raise UsageError(f"no rule or fix {name!r}; {known}")
    findings = [_finding(row) for row in look.findings if row.rule == name]
    predicted = [_fix(look, row) for row in look.fixes if row.name == name]
    nothing = [] if findings or predicted else [Section("", ["It does not apply to this trace."])]
    return [*findings, *predicted, *nothing, Section(f"Manual of {name}", every[name])]


def _finding(row: FindingEntry) -> Section:
    saving = [("saves", text)] if (text := saving_text(row)) else []
    seen = [(key.removesuffix("_ns"), _value(key, value)) for key, value in row.evidence.items()]
    fix = [("fix", row.fix)] if row.fix else []
    told = [text for text in (row.title, row.detail) if text]
    return Section(f"{row.rule}: {row.state}", told, [*fix, *saving, *seen])


def _value(key: str, value: Any) -> str:
    is_time = key.endswith("_ns") and isinstance(value, int | float)
    return time_text(value) if is_time else str(value)


def _fix(look: Look, row: FixEntry) -> Section:
    now = time_text(look.step.ns) if look.step else ""
    lines = [("do", row.order), ("seen", row.why)]
    span = f"{time_text(row.low_ns)} to {time_text(row.high_ns)}"
    lines.append(("step", f"{now} to about {time_text(row.ns)} ({span})"))
    lines += [("first", f"remove {row.first}")] if row.first else []
    lines += [("check", row.risk)] if row.risk else []
    return Section(row.name, labelled=lines)
