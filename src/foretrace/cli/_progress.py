"""Progress of a long read on a terminal: one line on stderr, from half a second on."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from foretrace.base import notices

PATIENCE_S = 0.5  # a shorter wait needs no explanation
EVERY_S = 0.1  # often enough to be seen to move


class ProgressLine:
    """Draws reports over each other; an empty one clears the line."""

    def __init__(self) -> None:
        self.due = time.monotonic() + PATIENCE_S
        self.drawn = False

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if not text and self.drawn:
            self._write("")
        elif text and now >= self.due:
            self._write(text)
            self.due = now + EVERY_S

    def _write(self, text: str) -> None:
        from foretrace.show.render.terminal import plain

        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{plain(text)[:width]}")
        sys.stderr.flush()
        self.drawn = bool(text)


@contextmanager
def on_terminal() -> Iterator[None]:
    """Show progress while a command runs; where stderr is not a terminal, show nothing."""
    if not sys.stderr.isatty():
        yield
        return
    notices.show_with(ProgressLine())
    try:
        yield
    finally:
        notices.report()
        notices.show_with(None)
