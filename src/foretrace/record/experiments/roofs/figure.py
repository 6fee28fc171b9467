"""`Figure`: one thing that is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """What is measured: its group, its name there, and how."""

    group: str
    name: str
    measure: Callable[[], dict[str, Any]]
