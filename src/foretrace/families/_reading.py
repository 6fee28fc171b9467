"""A kernel name while it is being read: the fields found so far, and the piece of the name that
states each of them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from foretrace.schema.kernel import KernelId, Part

SHORT_LIMIT = 48  # a short name must fit a column of a terminal table
_SEPARATORS = "_ ,<>:&*(){}[]#"
_DOTS = ("...", "…")


@cache
def rx(pattern: str) -> re.Pattern[str]:
    """The compiled pattern, compiled when a name first needs it: forty families must load in a few
    milliseconds.
    """
    return re.compile(pattern, re.ASCII)


def uncut(name: str) -> str:
    """The name without the half word that a report left at its end (`…_ldg8_f2f_stages_6...`); most
    names unchanged.
    """
    return name.rstrip(".…").rpartition("_")[0] if name.endswith(_DOTS) else name


class Reading:
    """Collects fields and parts. `put` and `note` may come in any order: the parts are sorted by
    place at the end.

    A text of "" stands for something that the name says by leaving it out (no `splitK`, so not
    split over K).
    """

    def __init__(self, name: str, family: str) -> None:
        self.name, self.family = name, family
        self.fields: dict[str, Any] = {}
        self._parts: list[tuple[int, int, Part]] = []
        self._start = self._end = 0

    def put(
        self, text: str, field: str, value: Any, meaning: str, certainty: str = "inferred"
    ) -> None:
        """State a field, the text that says so, and what it means. An empty text as value states
        nothing.
        """
        if value == "":
            return
        self.fields[field] = value
        self._add(text, field, meaning, certainty)

    def note(self, text: str, meaning: str, certainty: str = "inferred") -> None:
        """Explain a text that fills no field."""
        self._add(text, "", meaning, certainty)

    def done(self, role: str, short: str) -> KernelId:
        """The finished kernel; what no part covers is listed too, so that the parts cover the whole
        name.
        """
        if self.name.endswith(_DOTS):
            self.put("", "truncated", True, "the name was cut: it ends in dots", "checked")
        short = short.strip() or self.family
        short = short if len(short) <= SHORT_LIMIT else short[: SHORT_LIMIT - 1] + "…"
        return KernelId(self.name, short, self.family, role, self.fields, tuple(self._covered()))

    def _add(self, text: str, field: str, meaning: str, certainty: str) -> None:
        # several fields may share one piece
        if text and text != self.name[self._start : self._end]:
            found = self.name.find(text, self._end)
            found = found if found >= 0 else self.name.find(text)
            text = text if found >= 0 else ""  # spelt another way, as types are in a mangled name
            self._start = max(found, 0) if text else self._start
        if text:
            self._end = self._start + len(text)
        self._parts.append(
            (self._start if text else self._end, self._end, Part(text, field, meaning, certainty))
        )

    def _covered(self) -> list[Part]:
        parts: list[Part] = []
        reached = 0
        for start, end, part in sorted(self._parts, key=lambda entry: entry[0]):
            parts += self._gap(reached, start)
            parts.append(part)
            reached = max(reached, end)
        return parts + self._gap(reached, len(self.name))

    def _gap(self, start: int, end: int) -> list[Part]:
        text = self.name[start:end].strip("_ ,>")
        if not text.strip(_SEPARATORS):
            return []
        if end == len(self.name) and text.startswith("("):
            return [
                Part(text, "", "the argument list: repeats the types of the template", "checked")
            ]
        if "::" in text or text == "void":
            return [
                Part(text, "", "C++ return type, namespaces and templates around it", "documented")
            ]
        return [Part(text, "", "nothing is known about this piece", "unknown")]
