"""Graph breaks: the user's line, torch's reason, its explanation, hint and page.

The structured log and the log text tell the same break in the same words. Wordings of torch 2.4 to
2.13 are read; what a version does not say stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from foretrace.schema.compiler import GraphBreak, SourceLine

if TYPE_CHECKING:
    from foretrace.read.compiler import LogRecord, TextRecord

ARTIFACT = "dynamo_graph_break_reason"
_PLACE = "in user code at "
_FRAME = re.compile(r'\s*File "([^"]*)", line (\d{1,9}), in (.*)')
_REASONS = ("Graph Break Reason: ", "Reason: ")
_ENDS = ("User code traceback:", "Traceback (most recent call last):")
_SKIPS = ("Graph break: skip", "Graph break: torch.compile cannot properly resume", "WON'T CONVERT")
_VISIT = "please visit: "
_FIELDS = ("Explanation:", "Hint:", "Developer debug context:")


def graph_breaks(
    records: Iterable[LogRecord], texts: Iterable[TextRecord]
) -> tuple[GraphBreak, ...]:
    """Each break of one compilation once, however many records tell it."""
    payloads = (r.payload.decode(errors="replace") for r in records if r.name == ARTIFACT)
    written = (record.text for record in texts if record.channel == "graph_breaks")
    found: dict[tuple[str, int], GraphBreak] = {}
    for text in (*payloads, *written):
        for message in _messages(text):
            each = _parsed(message)
            if each is not None:
                found.setdefault((each.source.file, each.source.line), each)
    return tuple(found.values())


def resume_name(each: GraphBreak) -> str:
    """How Dynamo names the rest of the function, which it compiles on its own."""
    return f"torch_dynamo_resume_in_{each.source.function}_at_{each.source.line}"


def _messages(text: str) -> Iterator[list[str]]:
    """One text may hold several messages; each begins with its own head."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("Graph break", "WON'T CONVERT")) and lines:
            yield lines
            lines = []
        lines.append(line)
    yield lines


def _parsed(lines: list[str]) -> GraphBreak | None:
    head = lines[0] if lines else ""
    told = next((i for i, line in enumerate(lines) if line.startswith(_ENDS[1])), len(lines))
    source = _place(head, lines[:told])
    if source is None or not head.startswith(("Graph break", "WON'T CONVERT")):
        return None
    body = _reason_lines(lines, told)
    reason, fields = _fields(body)
    url = next((line.partition(_VISIT)[2].strip() for line in body if _VISIT in line), "")
    hint = "\n".join(fields["Hint:"])
    explanation = "\n".join(fields["Explanation:"])
    return GraphBreak(source, reason, explanation, hint, url, head.startswith(_SKIPS))


def _place(head: str, lines: list[str]) -> SourceLine | None:
    """Where the break is: the head says it, or the innermost frame of the user's code."""
    frames = [(i, found) for i, line in enumerate(lines) if (found := _FRAME.match(line))]
    file, _, number = head.partition(_PLACE)[2].strip().rpartition(":")
    if not number.isdecimal():
        if not frames:
            return None
        file, number = frames[-1][1][1], frames[-1][1][2]
    for i, found in reversed(frames):
        if (found[1], found[2]) == (file, number):
            code = lines[i + 1].strip() if i + 1 < len(lines) else ""
            return SourceLine(file, int(number), found[3].strip(), code)
    return SourceLine(file, int(number))


def _reason_lines(lines: list[str], told: int) -> list[str]:
    """The lines of the reason; in older logs the exception at the end of the traceback has it."""
    for i, line in enumerate(lines[:told]):
        for word in _REASONS:
            if line.startswith(word):
                rest = [line.removeprefix(word), *lines[i + 1 : told]]
                end = next((k for k, one in enumerate(rest) if one.startswith(_ENDS)), len(rest))
                return rest[:end]
    ends = [i for i, line in enumerate(lines) if line.startswith("torch._dynamo.exc.")]
    last = ends[0] if ends else len(lines)
    return [line.partition(": ")[2] if i == 0 else line for i, line in enumerate(lines[last:])]


def _fields(body: list[str]) -> tuple[str, dict[str, list[str]]]:
    """Torch's name of the break, and its indented fields, each of which may have several lines."""
    fields: dict[str, list[str]] = {name: [] for name in _FIELDS}
    reason, current, before = "", None, ""
    for line in body:
        text = line.strip()
        name = next((name for name in _FIELDS if line.startswith(f"  {name}")), None)
        if name:
            reason = reason or before
            current = fields[name]
            current.append(text.removeprefix(name).strip())
        elif not text:
            current = None
        elif current is not None:
            current[-1] = f"{current[-1]} {text}"
        else:
            before = text
    first = next((line.strip() for line in body if line.strip()), "")
    return (reason or first).removeprefix("Unsupported: "), fields
