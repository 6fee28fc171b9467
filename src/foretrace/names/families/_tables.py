"""Tables as text, and patterns: each is read and compiled when a name first needs it."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_DOTS = ("...", "…")


@cache
def rx(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled on first use: forty families must load in a few milliseconds."""
    return re.compile(pattern, re.ASCII)


def is_cut(name: str) -> bool:
    """Whether a report cut the name: it ends in dots."""
    return name.endswith(_DOTS)


def uncut(name: str) -> str:
    """The name without the half word that a report left at its end (`…_ldg8_f2f_stages_6...`)."""
    return name.rstrip(".…").rpartition("_")[0] if is_cut(name) else name


def joined(*words: Any) -> str:
    """The words that are not empty, one blank apart."""
    return " ".join(str(word) for word in words if word not in ("", None))


@cache
def rows(table: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a table, its cells two blanks apart, read on first use.

    `-` is an empty cell. A line that is indented further continues the row above it, and its last
    cell where it begins with `|`.
    """
    lines = table.replace("\n        |", "|").replace("\n        ", "  ").strip().splitlines()
    cells = (re.split(r" {2,}", line.strip()) for line in lines)
    return tuple(tuple("" if cell == "-" else cell for cell in row) for row in cells)


def row_for(table: str, text: str) -> tuple[str, ...] | None:
    """The first row whose pattern, its last cell, is the whole text; without the pattern."""
    if not _any_of(table).fullmatch(text):
        return None
    return next(row[:-1] for row in rows(table) if rx(row[-1]).fullmatch(text))


@cache
def _any_of(table: str) -> re.Pattern[str]:
    """One pattern for the rows of a table: most names are in none of them."""
    return rx("|".join(f"(?:{row[-1]})" for row in rows(table)))


@cache
def _words() -> dict[str, str]:
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def words(table: str) -> str:
    """A table of `words.toml`."""
    return _words()[table]


def word_set(text: str) -> frozenset[str]:
    """The words of a text: a long set, readable in few lines."""
    return frozenset(text.split())


@cache
def by_role(table: str, separator: str | None = None) -> tuple[tuple[str, list[str]], ...]:
    """Role and entries of each `role: entry entry …`; what is indented further goes on."""
    entries = rx(r"\n    (?=\w+: )").split(f"\n{table.rstrip()}")[1:]
    pairs = (" ".join(entry.split()).split(": ", 1) for entry in entries)
    return tuple((role, text.split(separator)) for role, text in pairs)


def by_spelling(table: str) -> dict[str, str]:
    """Spelling to value, from entries such as `f16 = __half, c10::Half`."""
    rows = (entry.split(" = ") for entry in table.strip().replace(";", "\n").splitlines())
    return {word: dtype.strip() for dtype, words in rows for word in words.split(", ")}
