"""Which shapes a sweep visits, and in which order. Needs no torch.

`batch=8,16` and `seq=64,128` give four shapes; the last name changes fastest. Order matters: a
compiler treats a shape differently after it has seen another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from foretrace.base.errors import UsageError
from foretrace.schema.rung import Option, Rung

Shape = Mapping[str, Any]

# The default sweep, as multiples of the rung's own sizes: batch twice, since torch.compile gives up
# static shapes at the second; then length, both, and last a hidden size, which changes the weights.
DEFAULT_STEPS: tuple[Mapping[str, int], ...] = (
    {},
    {"batch": 2},
    {"batch": 4},
    {"seq": 2},
    {"batch": 2, "seq": 2},
    {"hidden": 2},
    {"size": 2},
    {"size": 4},
)


def swept(rung: Rung, given: Sequence[str], *, small: bool = False) -> tuple[Shape, ...]:
    """The shapes of `given` (`name=value,value`), or the default ones."""
    if not given:
        return _default_sweep(rung, small)
    lists: dict[str, list[Any]] = {}
    for text in given:
        name, values = _parsed(rung, text)
        if name in lists:
            raise UsageError(f"{name} is swept twice: give all its values at once, {name}=8,16")
        lists[name] = values
    every = itertools.product(*lists.values())
    return tuple(dict(zip(lists, values, strict=True)) for values in every)


def shape_text(shape: Shape) -> str:
    """`batch 8, seq 64`."""
    return ", ".join(f"{name} {value}" for name, value in shape.items()) or "its own sizes"


def _default_sweep(rung: Rung, small: bool) -> tuple[Shape, ...]:
    values = rung.values({}, small=small)
    own = {name: value for name, value in values.items() if type(value) is int and value > 0}
    steps = [step for step in DEFAULT_STEPS if all(name in own for name in step)]
    names = dict.fromkeys(name for step in steps for name in step)
    return tuple({name: own[name] * step.get(name, 1) for name in names} for step in steps)


def _parsed(rung: Rung, text: str) -> tuple[str, list[Any]]:
    name, _, values = text.partition("=")
    known = {option.name: option for option in rung.options}
    option = known.get(name.strip().replace("-", "_"))
    if option is None or not values:
        names = ", ".join(known)
        message = f"{text!r} is not a sweep of {rung.name}: write NAME=VALUE,VALUE with one of"
        raise UsageError(f"{message} {names}")
    return option.name, [_value(option, value.strip()) for value in values.split(",")]


def _value(option: Option, text: str) -> Any:
    words: Mapping[str, Any] = {choice: choice for choice in option.choices}
    if isinstance(option.default, bool):
        words = {"true": True, "false": False}
    if words:
        if text not in words:
            raise UsageError(f"{option.name} cannot be {text!r}: choose from {', '.join(words)}")
        return words[text]
    if not text.isdecimal():
        raise UsageError(f"{option.name} cannot be {text!r}: it must be a whole number")
    return int(text)
