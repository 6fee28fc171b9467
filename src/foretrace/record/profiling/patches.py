"""Replaces a function of torch, or of another package, for some time; hooks on one module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
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


class ModuleHook:
    """A hook of ours on a module of the script.

    A module's hooks are part of it: `copy.deepcopy` and `torch.save` take them along. In a copy
    this one becomes a function that does nothing, and loads without this package.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *given: Any) -> Any:
        """What the hook of ours gives."""
        return self._call(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")
