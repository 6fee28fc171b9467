"""A kernel name while it is being read: the fields found so far, and the text that states each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any

from foretrace.schema.kernel import KernelId, Part

SHORT_LIMIT = 48  # a short name must fit a column of a terminal table
_SEPARATORS = "_ ,<>:&*(){}[]#"
_DOTS = ("...", "…")


@cache
def rx(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled on first use: forty families must load in a few milliseconds."""
    return re.compile(pattern, re.ASCII)


def uncut(name: str) -> str:
    """The name without the half word that a report left at its end (`…_ldg8_f2f_stages_6...`)."""
    return name.rstrip(".…").rpartition("_")[0] if name.endswith(_DOTS) else name


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


def word_set(text: str) -> frozenset[str]:
    """The words of a text: a long set, readable in few lines."""
    return frozenset(text.split())


@cache
def by_role(table: str, separator: str | None = None) -> tuple[tuple[str, list[str]], ...]:
    """Role and entries of each `role: entry entry …`; what is indented further goes on."""
    entries = rx(r"\n    (?=\w+: )").split(table.rstrip())[1:]
    pairs = (" ".join(entry.split()).split(": ", 1) for entry in entries)
    return tuple((role, text.split(separator)) for role, text in pairs)


def by_spelling(table: str) -> dict[str, str]:
    """Spelling to value, from entries such as `f16 = __half, c10::Half`."""
    rows = (entry.split(" = ") for entry in table.strip().replace(";", "\n").splitlines())
    return {word: dtype.strip() for dtype, words in rows for word in words.split(", ")}


def shape(text: str) -> list[int]:
    """`128x256` -> [128, 256]."""
    return [int(number) for number in text.split("x")]


# How a table says that a text is read.
_READ: dict[str, Callable[[str], Any]] = {"text": str, "number": int, "shape": shape, "flag": bool}


def row_for(table: str, text: str) -> tuple[str, ...] | None:
    """The first row whose pattern, its last cell, is the whole text; without the pattern."""
    if not _any_of(table).fullmatch(text):
        return None
    return next(row[:-1] for row in rows(table) if rx(row[-1]).fullmatch(text))


@cache
def _any_of(table: str) -> re.Pattern[str]:
    """One pattern for the rows of a table: most names are in none of them."""
    return rx("|".join(f"(?:{row[-1]})" for row in rows(table)))


class NameParser:
    """Collects fields and parts, in any order: parts are sorted by place at the end.

    A text of "" stands for what the name says by leaving a word out (no `splitK`: not split over
    K). `certainty` is that of every statement which does not give its own.
    """

    def __init__(self, name: str, family: str, certainty: str = "inferred") -> None:
        self.name, self.family, self.certainty = name, family, certainty
        self.fields: dict[str, Any] = {}
        self._parts: list[tuple[int, int, Part]] = []
        self._start = self._end = 0

    def get(self, field: str) -> Any:
        """The field, or "" where nothing stated it yet."""
        return self.fields.get(field, "")

    def put(self, text: str, field: str, value: Any, meaning: str, certainty: str = "") -> None:
        """State a field, the text that says so, and its meaning; `{}` there stands for the value.

        A value of "" or None states nothing.
        """
        if value not in ("", None):
            # a list that grows word by word must not be written out at each of them
            meaning = meaning.replace("{}", str(value)) if "{}" in meaning else meaning
            self.state(text, field, value, meaning, certainty)

    def state(self, text: str, field: str, value: Any, meaning: str, certainty: str = "") -> None:
        """State a field even where its value is None: the name says that it has no value."""
        self.fields[field] = value
        self._add(text, field, meaning, certainty or self.certainty)

    def put_groups(self, found: Mapping[str, str | None], table: str, certainty: str = "") -> None:
        """State what a pattern found: rows of group, its text in the name, field, kind, meaning."""
        for group, written, field, kind, meaning in rows(table):
            if text := found[group]:
                value = _READ[kind](text)
                self.put(written.replace("{}", text), field, value, meaning, certainty)

    def put_word(self, word: str, table: str) -> bool:
        """State what a word says: rows of field, kind, certainty, meaning, pattern of the word."""
        for field, kind, certainty, meaning, pattern in rows(table):
            if found := rx(pattern).fullmatch(word):
                value = _READ[kind](found[found.lastindex or 0])
                self.put(word, field, value, meaning, certainty)
                return True
        return False

    def note(self, text: str, meaning: str, certainty: str = "") -> None:
        """Explain a text that fills no field."""
        self._add(text, "", meaning, certainty or self.certainty)

    def done(self, role: str, short: str) -> KernelId:
        """The finished kernel. Text that no part covers gets a part too: parts cover the name."""
        if self.name.endswith(_DOTS):
            self.put("", "truncated", True, "the name was cut: it ends in dots", "checked")
        short = short.strip() or self.family
        short = short if len(short) <= SHORT_LIMIT else short[: SHORT_LIMIT - 1] + "…"
        return KernelId(self.name, short, self.family, role, self.fields, tuple(self._covered()))

    def _add(self, text: str, field: str, meaning: str, certainty: str) -> None:
        # several fields may share one text
        if text and text != self.name[self._start : self._end]:
            found = self.name.find(text, self._end)
            found = found if found >= 0 else self.name.find(text)
            text = text if found >= 0 else ""  # spelt another way, as types are in a mangled name
            self._start = max(found, 0) if text else self._start
        if text:
            self._end = self._start + len(text)
        start = self._start if text else self._end
        self._parts.append((start, self._end, Part(text, field, meaning, certainty)))

    def _covered(self) -> list[Part]:
        parts: list[Part] = []
        reached = 0
        for start, end, part in sorted(self._parts, key=itemgetter(0)):
            if start > reached:
                parts += self._gap(reached, start)
            parts.append(part)
            reached = max(reached, end)
        return parts + self._gap(reached, len(self.name))

    def _gap(self, start: int, end: int) -> list[Part]:
        text = self.name[start:end].strip("_ ,>")
        if not text.strip(_SEPARATORS):
            return []
        if end == len(self.name) and text.startswith("("):
            meaning, certainty = "the argument list: repeats the types of the template", "checked"
        elif "::" in text or text == "void":
            meaning, certainty = "C++ return type, namespaces and templates around it", "documented"
        else:
            meaning, certainty = "nothing is known about this piece", "unknown"
        return [Part(text, "", meaning, certainty)]
