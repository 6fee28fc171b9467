"""Finds one-file extensions: the modules of a package that declare one, and entry points.

A family, a device, a group or a rung is one module with one declaration; a rule, a fix and a
quantity of predictions are one function. Nothing registers itself anywhere else: writing it is
enough, and taking it out is enough too. Other packages take part through entry points in the groups
`foretrace.families`, `foretrace.devices`, `foretrace.costs`, `foretrace.analyses`,
`foretrace.fixes`, `foretrace.applied`, `foretrace.groups`, `foretrace.quantities`,
`foretrace.rungs` and `foretrace.lessons`.

An entry point that cannot be loaded, or that brings something else, costs one line on stderr and is
skipped. One that fails at work costs one line too, and has no answer.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache, wraps
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from foretrace.base.errors import warn
from foretrace.base.files import module_names

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

# whoever runs these says which one failed
_REPORTED = frozenset({"analyses", "applied", "rungs"})
# what a field of a declaration must be at least, by its annotation
_FIELDS: dict[Any, Any] = {
    str: str,
    int: int,
    float: (int, float),
    tuple: Collection,
    frozenset: Collection,
    Any: object,
}


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Every public module of `package`, in order."""
    for name in module_names(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{name}")


def manual(function: Callable[..., object]) -> list[str]:
    """The paragraphs of the docstring of a function."""
    text = function.__doc__ or ""
    return [" ".join(part.split()) for part in text.split("\n\n")]


def declared(package: ModuleType, kind: type[T], group: str) -> list[T]:
    """Every public `kind` of the modules of `package`, then what `entries` brings."""
    here = (item for module in modules(package) for item in vars(module).items())
    own = [thing for name, thing in here if isinstance(thing, kind) and not name.startswith("_")]
    return [*own, *entries(kind, group)]


def entries(kind: type[T], group: str) -> list[T]:
    """What entry points of `group` bring."""
    found = (_brought(entry, kind) for entry in _entry_points() if entry.group == group)
    return [thing for thing in found if thing is not None]


def installed() -> bool:
    """Whether another package brings anything."""
    return bool(_entry_points())


def _brought(entry: EntryPoint, kind: type[T]) -> T | None:
    try:
        thing = entry.load()
        if not isinstance(thing, kind):
            raise TypeError(f"{entry.value} is a {type(thing).__name__}, not a {kind.__name__}")
        _check_fields(thing)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # noqa: BLE001 - a module may even end the program
        warn(f"the plugin {_described(entry)} is skipped: {_reason(problem)}")
        return None
    return thing if entry.group.removeprefix("foretrace.") in _REPORTED else _guarded(thing, entry)


def _check_fields(thing: object) -> None:
    """Refuse a declaration that whoever uses it could not even read."""
    for name, hint in get_type_hints(type(thing)).items():
        if not _fits(value := getattr(thing, name), hint):
            raise TypeError(f"{name} cannot be {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    wanted, of = get_origin(hint) or hint, get_args(hint)
    if wanted in (UnionType, Union):
        return any(_fits(value, each) for each in of)
    kind = _FIELDS.get(wanted, wanted)
    if isinstance(kind, type | tuple) and not isinstance(value, kind):
        return False
    if hasattr(kind, "is_sound"):
        return bool(value.is_sound())
    if kind is Mapping:
        return all(_fits(key, of[0]) and _fits(each, of[1]) for key, each in value.items())
    return kind is not Collection or all(_fits(each, of[0]) for each in value)


def _guarded(thing: T, entry: EntryPoint) -> T:
    """A declaration each of whose functions answers None where it fails."""
    changed: dict[str, Any] = {}
    for name, hint in get_type_hints(type(thing)).items():
        value = getattr(thing, name)
        if get_origin(hint) is Callable:
            changed[name] = _guard(value, hint, entry)
        elif get_origin(hint) is Mapping and get_origin(of := get_args(hint)[1]) is Callable:
            changed[name] = {key: _guard(each, of, entry) for key, each in value.items()}
    if dataclasses.is_dataclass(thing):
        return dataclasses.replace(thing, **changed)  # type: ignore[type-var]
    from msgspec import structs  # capturing runs without it

    return structs.replace(thing, **changed)  # type: ignore[type-var]


def _guard(work: Callable[..., Any], hint: Any, entry: EntryPoint) -> Callable[..., Any]:
    wanted = get_args(hint)[1]

    @wraps(work)
    def called(*given: Any) -> Any:
        try:
            answer = work(*given)
            if answer is None or isinstance(answer, wanted):
                return answer
            raise TypeError(f"{answer!r} is not a {wanted}")
        except (Exception, SystemExit) as problem:
            if type(problem).__module__.startswith("foretrace."):
                raise  # an answer, such as `Unpriced`
            warn(f"the plugin {_described(entry)} failed: {_reason(problem)}")
            return None

    return called


def _described(entry: EntryPoint) -> str:
    return f"{entry.name} ({entry.value}, in {entry.group})"


def _reason(problem: BaseException) -> str:
    text = f"{type(problem).__name__}: {problem}".rstrip(": ")
    return text.splitlines()[0][:200]


@cache
def _any_is_declared() -> bool:
    """Whether an installed package declares an extension of ours.

    importlib.metadata takes 64 ms to import and to parse what 168 packages declare; a search of the
    raw files for our groups takes 5 ms. What lies in an archive is left to the slow way.
    """
    for place in (place or "." for place in sys.path):
        try:
            inside = os.listdir(place)
        except NotADirectoryError:
            return True
        except OSError:  # importlib.metadata skips what it may not read, too
            continue
        for folder in inside:
            if folder.endswith((".dist-info", ".egg-info")):
                file = f"{place}/{folder}/entry_points.txt"
                with suppress(OSError), open(file, "rb") as text:
                    if b"[foretrace." in text.read():
                        return True
    return False


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """What installed packages declare in our groups."""
    if not _any_is_declared():
        return ()
    from importlib.metadata import distributions

    found: dict[EntryPoint, None] = {}  # a place may be on the path twice
    for each in distributions():
        with suppress(Exception):  # the metadata of any package, however broken
            ours = (entry for entry in each.entry_points if entry.group.startswith("foretrace."))
            found |= dict.fromkeys(ours)
    return tuple(found)
