"""Where the snapshots of a test lie: one text file per test, GPU architecture and torch minor
version.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections import Counter
from pathlib import Path

from foretrace.guess.snapshot import from_text, to_text
from foretrace.model.trace import Trace

_KEY = r"(?:(?:sm|gfx)\w+|cpu|gpu)(?:-torch[\d.]+)?"


class Shelf:
    """The snapshot of `test` for the machine that recorded `trace`."""

    def __init__(self, folder: Path, test: str, trace: Trace, torch_version: str) -> None:
        arch = (trace.about.arch or "gpu") if trace.has("gpu") else "cpu"
        self.key = f"{arch}-torch{torch_version}" if torch_version else arch
        self._stem = file_stem(test)
        self.path = folder / f"{self._stem}.{self.key}.txt"

    def others(self) -> list[str]:
        """Keys of other machines that have a snapshot of this test."""
        names = sorted(path.name for path in self.path.parent.glob("*.txt"))
        found = [re.fullmatch(rf"{re.escape(self._stem)}\.({_KEY})\.txt", name) for name in names]
        return [match[1] for match in found if match and match[1] != self.key]

    def read(self) -> Counter[str]:
        return from_text(self.path.read_text(encoding="utf-8"))

    def write(self, kernels: Counter[str]) -> Path:
        """Whole or not at all: several processes may run tests at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = to_text(kernels, f"{self.key.replace('-torch', ', torch ')}, per step")
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=self.path.parent, suffix=".part", delete=False
        ) as file:
            file.write(text)
        os.replace(file.name, self.path)
        return self.path


def file_stem(test: str) -> str:
    """A file name for the id of a test; ids that would share one are told apart by a hash."""
    stem = re.sub(r"[^A-Za-z0-9_.=-]+", "-", test.replace("::", ".")).strip("-")
    odd = re.search(r"[^A-Za-z0-9_.:=\[\]-]", test) or len(stem) > 150
    return f"{stem[:150]}-{hashlib.sha256(test.encode()).hexdigest()[:6]}" if odd else stem
