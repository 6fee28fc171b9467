"""What takes time at the moment, for a terminal to show. Nothing listens unless a command does."""

from __future__ import annotations

from collections.abc import Callable

_show: Callable[[str], None] | None = None


def show_with(show: Callable[[str], None] | None) -> None:
    """Call `show` with every report from now on; None stops it."""
    global _show
    _show = show


def report(text: str = "") -> None:
    """Say what takes time now; an empty text says that it is over."""
    if _show is not None:
        _show(text)
