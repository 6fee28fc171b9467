"""A person's own code as a subject: `module:callable` or `path/to/file.py:callable`.

The callable is called with no arguments, or with the numbers of a shape, and returns what to
compile and what to call it with:

    def setup(batch=8, seq=128):
        return model, (torch.randn(batch, seq, 768),)       # inputs: a tuple, a dict of keywords,
        or one value

A result that can be called itself is called without inputs. Any other result means that the
callable is the work: it is compiled, and called with no arguments or with the numbers of the shape.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from types import ModuleType
from typing import Any

from foretrace.errors import ForetraceError, TheirError, UsageError
from foretrace.profiling.script import their_frames

REGION = "call"


def find(target: str) -> Callable[..., Any]:
    """The callable that `module:callable` or `file.py:callable` names; the current folder is looked
    into first.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise UsageError(
            f"{target!r} names no callable: write module:callable or path/to/file.py:callable"
        )
    if not place.endswith(".py") and (place.startswith(".") or "/" in place):
        raise UsageError(
            f"{place} is neither a module nor a .py file: write module:callable or "
            "path/to/file.py:callable"
        )
    module = _file(place) if place.endswith(".py") else _module(place)
    found = getattr(module, name, None)
    if found is None:
        close = get_close_matches(name, vars(module), n=1)
        raise UsageError(
            f"{place} has no {name!r}" + (f": did you mean {close[0]}?" if close else "")
        )
    if not callable(found):
        raise UsageError(f"{target} is a {type(found).__name__} and cannot be called")
    return found  # type: ignore[no-any-return]


def parse_shapes(text: str) -> tuple[tuple[int, ...], ...]:
    """`8x128,16x128` -> ((8, 128), (16, 128)); nothing is one shape without numbers."""
    shapes = [word.strip().lower().split("x") for word in text.split(",")] if text else [[]]
    if not all(number.isdecimal() for shape in shapes for number in shape):
        raise UsageError(f"{text!r} are no shapes: write them as 8x128,16x128")
    return tuple(tuple(int(number) for number in shape) for shape in shapes)


def call_of(
    function: Callable[..., Any], shape: Sequence[int], compile: Callable[[Any], Any]
) -> Callable[[], object]:
    """One call of what the person handed in, at a shape, compiled by `compile`."""
    made = function(*shape)
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]):
        work, inputs = made
        if isinstance(inputs, dict):
            return partial(compile(work), **inputs)
        return partial(compile(work), *(inputs if isinstance(inputs, tuple | list) else (inputs,)))
    return partial(compile(made)) if callable(made) else partial(compile(function), *shape)


@contextlib.contextmanager
def theirs(target: str) -> Iterator[None]:
    """What goes wrong inside is the person's own: their traceback, from their first frame on, and
    one line.
    """
    try:
        yield
    except ForetraceError:
        raise
    except (Exception, SystemExit) as problem:
        traceback.print_exception(type(problem), problem, their_frames(problem.__traceback__))
        raise TheirError(f"{target} raised {type(problem).__name__}") from problem


def _file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise UsageError(f"no such file: {path}")
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # as an import would: dataclasses and Dynamo look their module up there
    sys.modules[name] = module
    _look_into(os.path.dirname(os.path.abspath(path)))
    with theirs(path):
        spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    _look_into(os.getcwd())
    with theirs(name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name is None or not f"{name}.".startswith(f"{problem.name}."):
                raise  # something that their module imports
            raise UsageError(
                f"no module {name!r} in this folder or among what is installed"
            ) from problem


def _look_into(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)
