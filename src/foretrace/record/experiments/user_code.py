"""A user's own code: `module:callable` or `path/to/file.py:callable`.

The callable takes no arguments, or numbers. It returns what to compile and its inputs: a tuple, a
dict of keywords, or one value. A result that is itself callable is called without inputs. With any
other result the callable is the subject, called with no arguments or with the numbers.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from foretrace.base.errors import ForetraceError, UsageError, UserCodeError, nearest
from foretrace.record.profiling.script import their_frames
from foretrace.schema.rung import Built, Option, Rung, Setup

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


def as_rung(target: str) -> Rung:
    """The user's callable as a rung: its parameters that default to a number are the sizes."""
    with user_errors(target):
        function = find(target)
        parameters = inspect.signature(function).parameters.values()
    sizes = [each for each in parameters if type(each.default) is int]
    options = tuple(Option(each.name, each.default, "") for each in sizes)

    def build(setup: Setup) -> Built:
        with user_errors(target):
            return Built(call_of(function, setup.compile, **setup.values), "call")

    return Rung(target, target, options, {"eager": "your code as it is"}, build)


@contextlib.contextmanager
def user_errors(target: str) -> Iterator[None]:
    """An error inside is the user's: print their traceback, from their first frame on."""
    try:
        yield
    except ForetraceError:
        raise
    except (Exception, SystemExit) as problem:
        traceback.print_exception(type(problem), problem, their_frames(problem.__traceback__))
        raise UserCodeError(f"{target} raised {type(problem).__name__}") from problem


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
