"""`foretrace explain --json`: what words mean, as the files of rules, fixes and others say it."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from foretrace.schema.documents.look import SCHEMA, FindingEntry
from foretrace.schema.documents.name import DecodedName


class ManualEntry(Struct, frozen=True):
    """One rule, fix, quantity, op or document (`kind`). `manual` has the paragraphs of its file by
    their heads.

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
    """What was explained; without a word everything but ops. `kernels` are the words that are
    kernel names as well; those that are nothing else have a document of their own (`name`).
    """

    entries: list[ManualEntry]
    schema: int = SCHEMA
    kernels: list[DecodedName] | UnsetType = UNSET


DOCUMENT = Manual
