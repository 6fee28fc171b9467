"""Patterns that compile when they are used."""

from __future__ import annotations

import re

import pytest

from foretrace.base.patterns import regex


def test_a_pattern_is_compiled_by_its_first_use() -> None:
    broken = regex("(")
    with pytest.raises(re.error):
        broken.search("")


def test_a_pattern_answers_as_a_compiled_one_does() -> None:
    words, blank = regex("(?P<word>[a-z]+)", re.IGNORECASE), regex(rb"\s+")
    assert [found["word"] for found in words.finditer("One two")] == ["One", "two"]
    assert words.pattern == "(?P<word>[a-z]+)"
    assert words.fullmatch("One")
    assert not words.fullmatch("One ")
    assert blank.split(b"a b") == [b"a", b"b"]
    assert blank.sub(b"", b" a ") == b"a"
