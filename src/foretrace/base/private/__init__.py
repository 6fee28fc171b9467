"""What in a text is private: keys, addresses, paths. `share` and the run record use the same rules.

    hide_secrets("login hf_AbCdEf…")        # "login ***"

`keys` knows the forms of credentials, `places` those of paths and addresses. `cleaned` looks inside
JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foretrace.base.private.keys import Replace, hide_keys, hide_random
from foretrace.base.private.places import hide_addresses, hide_paths

__all__ = [
    "Replace",
    "cleaned",
    "hide_addresses",
    "hide_keys",
    "hide_paths",
    "hide_random",
    "hide_secrets",
]

_DEEPEST = 32  # what is nested deeper is left out
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1  # what a JSON writer takes


def hide_secrets(text: str, replace: Replace = lambda secret: "***") -> str:
    """The text without credentials, of known forms and of others."""
    return hide_random(hide_keys(text, replace), replace)


def cleaned(value: Any, clean: Callable[[str], str], key: str = "", depth: int = 0) -> Any:
    """A JSON value with every text, keys included, passed through `clean`.

    A text is cleaned together with its key, which may say what it is.
    """
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
