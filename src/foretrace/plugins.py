"""Finds one-file extensions: the modules of a package that declare one, and entry points.

A family, a device, an analysis, a group, a rung or a kind of prediction is one module with one
declaration. Nothing registers itself anywhere else: dropping the file in is enough, and taking it
out is enough too. Other packages take part through entry points in the groups `foretrace.families`,
`foretrace.devices`, `foretrace.costs`, `foretrace.analyses`, `foretrace.groups`,
`foretrace.guesses`, `foretrace.reasons` and `foretrace.rungs`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Every public module of `package`, in name order; one named `_...` is shared help."""
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package.__name__}.{info.name}")


def declared(package: ModuleType, attribute: str, kind: type[T], group: str) -> list[T]:
    """The `attribute` of each module of `package` that has one, then what `entries` brings."""
    having = (module for module in modules(package) if hasattr(module, attribute))
    found = [getattr(module, attribute) for module in having]
    return _checked([*found, *_loaded(group)], kind, group)


def entries(kind: type[T], group: str) -> list[T]:
    """What entry points of `group` bring."""
    return _checked(_loaded(group), kind, group)


def _loaded(group: str) -> list[object]:
    return [entry.load() for entry in _entry_points() if entry.group == group]


def _checked(found: list[Any], kind: type[T], group: str) -> list[T]:
    wrong = [thing for thing in found if not isinstance(thing, kind)]
    if wrong:
        raise TypeError(f"{group}: {wrong[0]!r} is not a {kind.__name__}")
    return found


@cache
def _any_is_declared() -> bool:
    """Whether an installed package declares an extension of ours.

    importlib.metadata takes 64 ms to import and to parse what 168 packages declare; a search of the
    raw files for our groups takes 5 ms. What lies in an archive is left to the slow way.
    """
    for place in map(Path, sys.path):
        if place.is_file():
            return True
        for folder in ("*.dist-info", "*.egg-info"):
            for file in place.glob(f"{folder}/entry_points.txt"):
                # importlib.metadata skips a file that it may not read, too
                with suppress(OSError):
                    if "[foretrace." in file.read_text(encoding="utf-8", errors="replace"):
                        return True
    return False


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """What installed packages declare in our groups."""
    if not _any_is_declared():
        return ()
    from importlib.metadata import distributions

    declared = (entry for each in distributions() for entry in each.entry_points)
    return tuple(entry for entry in declared if entry.group.startswith("foretrace."))
