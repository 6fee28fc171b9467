"""Every regular expression takes time in proportion to its text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from foretrace.base import private
from foretrace.trace import groups
from foretrace.work import families
from foretrace.work.families import _cpp
from growth.names import hard_names
from regexes.patterns import degree
from regexes.written import SOURCE, Written, written
from sweep import looped

NAMES = Path(__file__).parent / "work/families/kernel_names.jsonl"
# place, and why no text can be long or harmful there
HARMLESS = {
    "check/words.py": "a prediction has at most 2,000 characters, and every loop may end a match",
    "trace/query.py": "a possessive repeat of a group gives nothing back",
    "look/savings.py": "reads the orders of this package's fixes",
}


@looped(
    ("pattern", "how", "wanted"),
    [
        (r"\d+x", {}, 2),
        (r"x\d+y", {}, 1),
        (r"\d+", {}, 1),
        (r"\d+x", {"search": False}, 1),
        (r"(?<!\d)\d+x", {}, 1),
        (r"\b\w+x", {}, 1),
        (r"\s+$", {}, 2),
        (r"a*a*b", {"search": False}, 2),
        (r"a*+a*+b", {"search": False}, 1),
        (r".*a.*b", {"search": False}, 2),
        (r"\w*\d+", {"search": False, "full": True}, 2),
        (r"\w*:\d+", {"search": False, "full": True}, 1),
        (r"(?:\w{1,60},)*x", {"search": False}, 1),
        (r"(a+)+b", {"search": False}, 9),
        (r"(?:a*b|a)*+c", {"search": False}, 2),
        (r"(?:a|ab?)*+c", {"search": False}, 1),
        (r'"(?:[^"\\]++|\\.)*+"', {}, 2),
        (r'"(?:[^"\\]++|\\.)*+("?)', {}, 1),
        (r"(?:[A-Za-z]*\d+){3,}[A-Za-z]*\b", {}, 9),
    ],
)
def test_the_degree_of_known_expressions(pattern: str, how: dict[str, bool], wanted: int) -> None:
    assert degree(pattern, **how) == wanted


def _problem(each: Written) -> str:
    search = bool(each.methods - {"match", "fullmatch"})
    full = "fullmatch" in each.methods
    found = degree(each.pattern or "", each.flags, search=search, full=full and not search)
    found = max(found, degree(each.pattern or "", each.flags, search=False, full=full))
    return f"{each.place}: {each.pattern!r}" if found > 1 else ""


@pytest.mark.sweep
def test_every_expression_in_the_source_is_linear() -> None:
    """Every regular expression in the source is checked for super-linear matching."""
    known = tuple(f"foretrace/{place}" for place in HARMLESS)
    found = [each for each in written() if not each.place.startswith(known)]
    assert len([each for each in found if each.pattern is not None]) > 200
    assert not [text for each in found if each.pattern is not None if (text := _problem(each))]


def test_expressions_of_tables_are_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Families keep expressions in tables; decoding every kind of name compiles them all."""
    seen: dict[str, int] = {}
    compiled = re.compile

    def recorded(pattern: str, flags: int = 0) -> re.Pattern[Any]:
        seen[pattern] = int(flags)
        return compiled(pattern, flags)

    _cpp.rx.cache_clear()
    families.decode.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(_cpp.re, "compile", recorded)
        _decode_all()
    written_ones = {each.pattern for each in written(SOURCE / "foretrace/work/families")}
    assert len(seen.keys() - written_ones) > 100
    assert not [
        pattern
        for pattern, flags in seen.items()
        if pattern not in written_ones
        if degree(pattern, flags, search=False, full=True) > 1
    ]


def test_rules_for_private_texts_are_linear() -> None:
    """They are compiled in a loop, so that the source does not show them."""
    rules = private._RULES
    assert len(rules) > 5
    assert not [each for _, each in rules if degree(each.pattern, each.flags, search=True) > 1]


def _decode_all() -> None:
    lines = NAMES.read_text().splitlines()
    for name in [*(json.loads(line)["name"] for line in lines), *hard_names(200).values()]:
        families.decode(name)


def test_patterns_of_groups_are_linear() -> None:
    """A pattern over the ops of a stream is a regular expression over as many letters."""
    texts = [pattern.text for group in groups.every() for pattern in group.patterns]
    words = sorted({word for text in texts for word in re.findall(r"\w+", text)})
    letter = {word: chr(0x21 + at) for at, word in enumerate(words)}
    plain = [re.sub(r"\w+", lambda found: re.escape(letter[found[0]]), text) for text in texts]
    assert texts
    assert not [
        text
        for text, each in zip(texts, plain, strict=True)
        if degree(each.replace(" ", ""), search=True) > 1
    ]
