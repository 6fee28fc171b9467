"""Recompilations: which guard of which version failed, and the values it met."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from foretrace.schema.compiler import Compilation, GuardFailure, GuardTally

if TYPE_CHECKING:
    from foretrace.read.compiler import LogRecord, TextRecord

ARTIFACT = "recompile_reasons"
CHANNELS = frozenset({"recompiles", "recompiles_verbose"})
_VERSION = re.compile(r"(!?\d+(?:/\d+)+(?:_\d+)?): (.*)")
# `tensor 'x' size mismatch at index 0. expected 64, actual 32`
_TENSOR = re.compile(r"tensor '(.{1,1000}?)' ([a-z_ ]{1,40}) mismatch( at index \d+)?\. expected ")
_CHECK = re.compile(r"___check_(obj|type)_id\(([^,]*),")
_STACK = "User stack trace:"
_LIMIT = re.compile(r"torch\._dynamo hit config\.(\w+) \((\d+)\)")


def guard_failures(
    records: Iterable[LogRecord], texts: Iterable[TextRecord]
) -> tuple[GuardFailure, ...]:
    """The guards that failed before one compilation, one for each earlier version."""
    told = [one for r in records if r.name == ARTIFACT for one in _listed(r.payload)]
    lines = (line for r in texts if r.channel in CHANNELS for line in r.text.splitlines())
    found = [_parsed(text) for text in (*told, *_written(lines))]
    return tuple(dict.fromkeys(found))


def limit_reached(texts: Iterable[TextRecord]) -> str:
    """`recompile_limit (8)` where Dynamo gave up on a function for it; `cache_size_limit` once."""
    found = (_LIMIT.match(text.text) for text in texts if text.text.startswith("torch._dynamo hit"))
    return next((f"{each[1]} ({each[2]})" for each in found if each), "")


def tallies(compilations: Iterable[Compilation]) -> tuple[GuardTally, ...]:
    """Each guard with the recompilations that it caused and the values that it met."""
    met: dict[tuple[str, str], dict[str, list[GuardFailure]]] = {}
    for compilation in compilations:
        for each in compilation.recompile:
            key = (each.what, each.subject or each.text)
            met.setdefault(key, {}).setdefault(compilation.id, []).append(each)
    return tuple(
        GuardTally(
            what,
            subject,
            tuple(caused),
            tuple(dict.fromkeys(f.expected for fs in caused.values() for f in fs if f.expected)),
            tuple(dict.fromkeys(f.actual for fs in caused.values() for f in fs if f.actual)),
        )
        for (what, subject), caused in met.items()
    )


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


def _parsed(text: str) -> GuardFailure:
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
