"""`foretrace look FOLDER --json`: every trace of a folder or zip."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.documents.look import Look
from foretrace.schema.ledger import NoteEntry


class LeftOut(Struct, frozen=True):
    """A file named like a trace that cannot be read, and why."""

    path: str
    code: str
    text: str


class LookSet(Struct):
    """The document; `notes` are about the set as a whole. All lists are in order of path.

    `job` has the paths of the traces that are ranks of one job. It is empty for separate traces.
    """

    schema: int
    traces: list[Look]
    notes: list[NoteEntry]
    left_out: list[LeftOut]
    job: list[str] = []


DOCUMENT = LookSet
