"""A folder or zip of traces as one overview: a document of `look` for each, what they show
together, and what was left out.

Only documents are kept: a trace is let go before the next one is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from foretrace.model.sets import Member, set_notes
from foretrace.opening import shown
from foretrace.reading_apart import Refused, documents
from foretrace.schema.ledger import Note
from foretrace.sources.folder import FolderContents, nothing_in
from foretrace.sources.limits import Limits

SCHEMA = 1
Tell = Callable[[int, int, str], None]  # how many are done, of how many, and what comes next


@dataclass(frozen=True, slots=True)
class Overview:
    """`looks` and `left_out` in order of path; `notes` are about the set as a whole."""

    path: str
    looks: list[dict[str, Any]]
    notes: tuple[Note, ...]
    left_out: list[Refused]

    def document(self) -> dict[str, Any]:
        """What `foretrace look FOLDER --json` prints."""
        notes = [note.entry() for note in self.notes]
        return {
            "schema": SCHEMA,
            "traces": self.looks,
            "notes": notes,
            "left_out": [asdict(each) for each in self.left_out],
        }

    def label(self, path: str) -> str:
        """A path as a person calls it who knows the folder."""
        member = path.removeprefix(f"{self.path}::")
        return member if member != path else os.path.relpath(path, self.path)


def overview(
    path: str, inside: FolderContents, limits: Limits, *, cache: bool, tell: Tell
) -> Overview:
    """Look at each trace that is inside. Raises `TraceError` when none can be read."""
    left_out = [Refused.of(each, problem) for each, problem in inside.files if problem]
    paths, looks, facts = inside.traces, [], []
    for done, found in enumerate(documents(paths, limits, cache)):
        tell(done + 1, len(paths), paths[done])
        if isinstance(found, Refused):
            left_out.append(found)
            continue
        looks.append(found["look"])
        facts.append(
            Member(found["look"]["trace"]["path"], found["look"]["trace"]["rank"], **found["run"])
        )
    left_out.sort(key=lambda each: each.path)
    if not looks:
        raise nothing_in(path, [f"{each.path}: {each.text} [{each.code}]" for each in left_out])
    return Overview(shown(path), looks, (*set_notes(facts), *_others(inside.others)), left_out)


def _others(count: int) -> tuple[Note, ...]:
    text = (
        "run records, and files that are not called like traces (*.json, *.trace, *.tmp, *.gz, "
        "*.zst, *.zip)"
    )
    return (Note("other_files", "info", count, text),) if count else ()
