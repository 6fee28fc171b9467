"""A user's own code: `module:callable` or `path/to/file.py:callable`.

The callable takes no arguments, or numbers. It returns what to compile and its inputs: a tuple, a
dict of keywords, or one value. A result that is itself callable is called without inputs. With any
other result the callable is the subject, called with no arguments or with the numbers.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from foretrace.base.errors import UsageError, nearest

FORMS = "write module:callable or path/to/file.py:callable"


def find(target: str) -> Callable[..., Any]:
    """The callable that `target` names; the current folder comes first on the path."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise UsageError(f"{target!r} names no callable: {FORMS}")
    if not place.endswith(".py") and (place.startswith(".") or "/" in place):
        raise UsageError(f"{place} is neither a module nor a .py file: {FORMS}")
    module = _file(place) if place.endswith(".py") else _module(place)
    found: Callable[..., Any] | None = getattr(module, name, None)
    if found is None:
        raise UsageError(f"{place} has no {name!r}: {nearest(name, vars(module), FORMS)}")
    if not callable(found):
        raise UsageError(f"{target} is a {type(found).__name__} and cannot be called")
    return found


def call_of(
    function: Callable[..., Any], compiler: Callable[[Any], Any], *numbers: int, **named: int
) -> Callable[[], object]:
    """One call of the user's code, compiled by `compiler`."""
    made = function(*numbers, **named)
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]):
        work, inputs = made
        if isinstance(inputs, dict):
            return partial(compiler(work), **inputs)
        return partial(compiler(work), *(inputs if isinstance(inputs, tuple | list) else (inputs,)))
    if callable(made):
        return partial(compiler(made))
    return partial(compiler(function), *numbers, **named)


def _file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise UsageError(f"no such file: {path}")
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # as an import does: dataclasses and Dynamo look their module up there
    sys.modules[name] = module
    _add_to_path(os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    _add_to_path(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{name}.".startswith(f"{problem.name}."):
            raise  # something that their module imports
        message = f"no module {name!r} in this folder or among the installed packages"
        raise UsageError(message) from problem


def _add_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)
