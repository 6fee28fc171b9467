"""Finds one-file extensions: every module of a package that declares the thing asked for, and entry
points.

A family, a device, an analysis, a rung or a kind of prediction is one module with one module-level
declaration. Nothing registers itself anywhere else: dropping the file in is enough, and taking it
out is enough too. Other packages take part through entry points in the groups `foretrace.families`,
`foretrace.devices`, `foretrace.costs`, `foretrace.analyses`, `foretrace.guesses`,
`foretrace.reasons` and `foretrace.rungs`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Every public module of `package`, in name order (a name that starts with `_` is shared help,
    not an extension).
    """
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package.__name__}.{info.name}")


def declared(package: ModuleType, attribute: str, kind: type[T], group: str) -> list[T]:
    """The `attribute` of each module of `package` that has one, then those that entry points of
    `group` bring.
    """
    found = [
        getattr(module, attribute) for module in modules(package) if hasattr(module, attribute)
    ]
    return _checked([*found, *(entry.load() for entry in _entry_points(group))], kind, group)


def entries(kind: type[T], group: str) -> list[T]:
    """What entry points of `group` bring."""
    return _checked([entry.load() for entry in _entry_points(group)], kind, group)


def _checked(found: list[Any], kind: type[T], group: str) -> list[T]:
    wrong = [thing for thing in found if not isinstance(thing, kind)]
    if wrong:
        raise TypeError(f"{group}: {wrong[0]!r} is not a {kind.__name__}")
    return found


@cache
def _every_entry_point() -> Any:
    """All entry points there are, read once: looking through the installed packages takes tens of
    milliseconds.
    """
    from importlib.metadata import entry_points

    return entry_points()


def _entry_points(group: str) -> list[EntryPoint]:
    return list(_every_entry_point().select(group=group))
