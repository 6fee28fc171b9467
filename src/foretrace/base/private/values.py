"""Private text inside a JSON value: a text is read with its key, which may say what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_DEEPEST = 32  # what is nested deeper is left out
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1  # what a JSON writer takes


def cleaned(value: Any, clean: Callable[[str], str], key: str = "", depth: int = 0) -> Any:
    """The value with every text, keys included, passed through `clean`."""
    if isinstance(value, str):
        return clean(f"{key}{clean(value)}").removeprefix(key)
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return None
    if isinstance(value, dict | list | tuple) and depth >= _DEEPEST:
        return None
    if isinstance(value, dict):
        entries = [(str(name), each) for name, each in value.items()]
        return {clean(name): cleaned(each, clean, f"{name}=", depth + 1) for name, each in entries}
    if isinstance(value, list | tuple):
        return [cleaned(each, clean, key, depth + 1) for each in value]
    return value
