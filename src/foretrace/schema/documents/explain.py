"""`foretrace explain --json`: the manual of rules and fixes, as their own files write it."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.documents.look import SCHEMA, FindingEntry


class ManualEntry(Struct, frozen=True):
    """One rule, or one fix (`kind`). `manual` has the paragraphs of its file by their heads.

    `needs` are the data that a trace must have, with how to record them. `fixes` are the fixes that
    act on what a rule sees, `rules` the rules that lead to a fix. `example` is a recording that
    shows the rule, and `finding` what it says there, where one rule was explained.
    """

    kind: str
    name: str
    title: str
    manual: dict[str, str]
    needs: list[str] = []
    fixes: list[str] = []
    rules: list[str] = []
    example: str = ""
    finding: FindingEntry | None = None


class Manual(Struct, frozen=True):
    """What was explained; without a name, every rule and fix."""

    entries: list[ManualEntry]
    schema: int = SCHEMA


DOCUMENT = Manual
