"""Graph breaks: the user's line, torch's reason, its explanation, hint and page.

The structured log and the log text tell the same break in the same words. Wordings of torch 2.4 to
2.13 are read; what a version does not say stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from foretrace.schema.compiler import GraphBreak, GuardFailure, SourceLine

if TYPE_CHECKING:
    from foretrace.read.compiler import LogRecord, TextRecord

BREAK_RECORD = "dynamo_graph_break_reason"
_PLACE = "in user code at "
_FRAME = re.compile(r'\s*File "([^"]*)", line (\d{1,9}), in (.*)')
_REASONS = ("Graph Break Reason: ", "Reason: ")
_ENDS = ("User code traceback:", "Traceback (most recent call last):")
_SKIPS = ("Graph break: skip", "Graph break: torch.compile cannot properly resume", "WON'T CONVERT")
_VISIT = "please visit: "
_FIELDS = ("Explanation:", "Hint:", "Developer debug context:")
RECOMPILE_RECORD = "recompile_reasons"
CHANNELS = frozenset({"recompiles", "recompiles_verbose"})
_VERSION = re.compile(r"(!?\d+(?:/\d+)+(?:_\d+)?): (.*)")
# `tensor 'x' size mismatch at index 0. expected 64, actual 32`
_TENSOR = re.compile(r"tensor '(.{1,1000}?)' ([a-z_ ]{1,40}) mismatch( at index \d+)?\. expected ")
_CHECK = re.compile(r"___check_(obj|type)_id\(([^,]*),")
_STACK = "User stack trace:"
_LIMIT = re.compile(r"torch\._dynamo hit config\.(\w+) \((\d+)\)")


def graph_breaks(
    records: Iterable[LogRecord], texts: Iterable[TextRecord]
) -> tuple[GraphBreak, ...]:
    """Each break of one compilation once, however many records tell it."""
    payloads = (r.payload.decode(errors="replace") for r in records if r.name == BREAK_RECORD)
    written = (record.text for record in texts if record.channel == "graph_breaks")
    found: dict[tuple[str, int], GraphBreak] = {}
    for text in (*payloads, *written):
        for message in _messages(text):
            each = _break(message)
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


def _break(lines: list[str]) -> GraphBreak | None:
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


def guard_failures(
    records: Iterable[LogRecord], texts: Iterable[TextRecord]
) -> tuple[GuardFailure, ...]:
    """The guards that failed before one compilation, one for each earlier version."""
    told = [one for r in records if r.name == RECOMPILE_RECORD for one in _listed(r.payload)]
    lines = (line for r in texts if r.channel in CHANNELS for line in r.text.splitlines())
    found = [_guard(text) for text in (*told, *_written(lines))]
    return tuple(dict.fromkeys(found))


def limit_reached(texts: Iterable[TextRecord]) -> str:
    """`recompile_limit (8)` where Dynamo gave up on a function for it; `cache_size_limit` once."""
    found = (_LIMIT.match(text.text) for text in texts if text.text.startswith("torch._dynamo hit"))
    return next((f"{each[1]} ({each[2]})" for each in found if each), "")


def _listed(payload: bytes) -> list[str]:
    """One reason is written as it is, several as a JSON list."""
    text = payload.decode(errors="replace").strip()
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return [text.partition(f"\n{_STACK}")[0]] if text else []
    several = found if isinstance(found, list) else [found]
    return [str(one).partition(f"\n{_STACK}")[0] for one in several]


def _written(lines: Iterable[str]) -> Iterator[str]:
    """The listed guards of a message; a stack may follow each of them."""
    in_stack = False
    for line in lines:
        text = line.strip()
        if not text.startswith("- "):
            continue
        text = text.removeprefix("- ").strip()
        if _VERSION.match(text):
            in_stack = False
        in_stack = in_stack or text.startswith(_STACK)
        if not in_stack and text:
            yield text


def _guard(text: str) -> GuardFailure:
    versioned = _VERSION.match(text)
    version, guard = (versioned[1], versioned[2]) if versioned else ("", text)
    guard = guard.strip()
    if found := _TENSOR.match(guard):
        expected, _, actual = guard[found.end() :].partition(", actual ")
        what = f"{_singular(found[2])}{found[3] or ''}"
        return GuardFailure(version, guard, found[1], expected, actual, what)
    if found := _CHECK.match(guard):
        what = "object" if found[1] == "obj" else "type"
        return GuardFailure(version, guard, found[2].strip(), what=what)
    return _compared(version, guard)


def _singular(what: str) -> str:
    """`strides` before torch 2.1, `stride` since."""
    return "stride" if what == "strides" else what


def _compared(version: str, guard: str) -> GuardFailure:
    """A guard as code, `n == 3  # file.py:12 in f`: what was expected, not what was met."""
    code = guard.partition("  #")[0].strip()
    left, equal, right = code.partition(" == ")
    if equal and " == " not in right and " and " not in code and " or " not in code:
        return GuardFailure(version, guard, left.strip(), right.strip(), "", "value")
    return GuardFailure(version, guard)
