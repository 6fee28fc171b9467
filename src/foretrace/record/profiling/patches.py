"""Replaces a function of torch, or of another package, for some time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, wrapped: Callable[[Any], Any]) -> Iterator[None]:
    """Inside the block `owner.name` is what `wrapped` makes of it."""
    original = getattr(owner, name)
    setattr(owner, name, wrapped(original))
    try:
        yield
    finally:
        setattr(owner, name, original)
