"""Atomic writes: a file that this package writes is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to; it takes the place of `target` when the block ends without an error.

    The draft lies in a private folder beside the target, so that the last step is a rename within
    one file system. The folder and its parents must exist.
    """
    import tempfile  # brings random and hashlib

    with tempfile.TemporaryDirectory(prefix=".foretrace-", dir=target.parent) as folder:
        draft = Path(folder) / target.name
        yield draft
        os.replace(draft, target)


def write_text(target: Path, text: str) -> None:
    """Write UTF-8 text to `target` atomically."""
    with replacing(target) as draft:
        draft.write_text(text, encoding="utf-8")


def write_bytes(target: Path, content: bytes) -> None:
    """Write bytes to `target` atomically."""
    with replacing(target) as draft:
        draft.write_bytes(content)
