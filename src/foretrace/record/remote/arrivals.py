"""Files from another machine, written below one folder: names, sizes and contents are untrusted.

A name keeps letters, digits and a few marks; it never leads out of the folder. The files together
stay below the house's limit on bytes. Nothing is run, and nothing gets the right to be run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from foretrace.base import files, notices
from foretrace.base.budget import Limits, raised_by
from foretrace.base.errors import LimitError, TraceError
from foretrace.base.units import bytes_text
from foretrace.read.folder import searched

BLOCK = 1 << 20
MOST_FILES, MOST_PARTS, LONGEST = 10_000, 12, 200


class Arrivals:
    """Takes the files of one run into `folder`; `notes` says what was not taken, and why."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.brought: dict[str, Path] = {}
        self.notes: list[str] = []
        self._bytes = 0

    def take(self, name: str, read: Callable[[int], bytes], checksum: str | None = None) -> None:
        """Write one file, as long as `read` gives bytes."""
        target = self._place(name)
        if target is None:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with files.replacing(target) as draft, draft.open("xb") as file:
            while block := read(BLOCK):
                self._count(len(block), name)
                digest.update(block)
                file.write(block)
        if checksum and digest.hexdigest() != checksum:
            target.unlink()
            raise TraceError("E_CHANGED", name, "arrived damaged", hint="fetch it again")
        self.brought[name] = target

    @property
    def traces(self) -> list[str]:
        """Those of the files that are traces by their content."""
        if not self.brought:
            return []
        found = searched(str(self.folder), self.limits)
        here = {str(path) for path in self.brought.values()}
        return [path for path in (found.traces if found else ()) if path in here]

    def _place(self, name: str) -> Path | None:
        """Where a file goes; None, with a note, where its name allows no place."""
        if len(self.brought) >= MOST_FILES:
            raise LimitError("E_MEMBERS", str(self.folder), f"more than {MOST_FILES:,} files")
        parts = [re.sub(r"[^\w.+=@-]", "_", part, flags=re.ASCII) for part in name.split("/")]
        odd = any(part.strip(".") == "" or len(part) > LONGEST for part in parts)
        target = self.folder.joinpath(*parts)
        if odd or len(parts) > MOST_PARTS or target in self.brought.values():
            self.notes.append(f"{name}: not taken, its name allows no place of its own")
            return None
        if any(target.parents[depth].is_symlink() for depth in range(len(parts) - 1)):
            self.notes.append(f"{name}: not taken, a link is in its place")
            return None
        return self._apart(name, parts)

    def _apart(self, name: str, parts: list[str]) -> Path:
        """The place of a file; another one where a name is both a file and a folder."""
        place = self.folder
        for number, part in enumerate(parts):
            is_file = number == len(parts) - 1
            while (place / part).is_dir() if is_file else place / part in self.brought.values():
                part += "_"
            place /= part
        if place != self.folder.joinpath(*parts):
            self.notes.append(f"{name}: kept as {place.name}, its name is a file and a folder")
        return place

    def _count(self, count: int, name: str) -> None:
        self._bytes += count
        notices.report(f"fetching {name}: {bytes_text(self._bytes)}")
        if self._bytes > self.limits.bytes:
            what = f"more than {bytes_text(self.limits.bytes)} in one run"
            raise LimitError("E_TOO_BIG", name, what, hint=raised_by("bytes"))


def checksums(text: str) -> dict[str, str]:
    """The lines of `sha256sum`: a name to its sum; a line of another form counts for nothing."""
    lines = (re.fullmatch(r"\\?([0-9a-f]{64}) [ *](.+)", line) for line in text.splitlines())
    return {line[2]: line[1] for line in lines if line is not None}
