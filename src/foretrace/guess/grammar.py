"""Patterns: how a kind of prediction may be worded, and how a text is matched against all of them.

A pattern is a sentence with holes: `every|some|no {what:things} has {field:field} [{value:value}]`.
Plain words stand for themselves, `a|b` is a choice, `{name:slot}` is a hole that a slot reads (see
`slots`), `[…]` may be left out; a word in brackets is remembered under its own name. Of all
patterns the one that reads the whole text wins. When none does, the error points at the furthest
word that any of them reached, and names the nearest word that would have taken it further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from foretrace.guess.slots import SLOTS, Stuck
from foretrace.guess.tokens import GuessError, Token, wrong

_ITEM = re.compile(
    r"(?P<open>\[)?(?:\{(?P<name>\w+):(?P<slot>\w+)\}|(?P<words>[^\s\[\]{}]+))(?P<close>\])?"
)

Args = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """One place of a pattern: a choice of words (`slot` empty) or a hole."""

    name: str
    words: tuple[str, ...] = ()
    slot: str = ""
    optional: bool = False


@cache
def items(pattern: str) -> tuple[Item, ...]:
    """The places of a pattern."""
    return tuple(_item(found) for found in _ITEM.finditer(pattern))


def _item(found: re.Match[str]) -> Item:
    optional = found["open"] is not None
    if found["slot"]:
        return Item(found["name"], slot=found["slot"], optional=optional)
    words = tuple(found["words"].split("|"))
    return Item(words[0], words, optional=optional)


class _Furthest:
    """The furthest place that reading reached, and what it wanted to see there."""

    def __init__(self) -> None:
        self.place = -1
        # in order: of words that are equally near, the first is named
        self.wanted: dict[str, None] = {}

    def note(self, place: int, wanted: Iterable[str]) -> None:
        if place > self.place:
            self.place, self.wanted = place, {}
        if place == self.place:
            self.wanted.update(dict.fromkeys(wanted))


def match(
    text: str, tokens: Sequence[Token], patterns: Iterable[tuple[Any, str]]
) -> tuple[Any, Args]:
    """The owner of the first pattern that reads all of `tokens`, and what it read; `GuessError`
    when none does.
    """
    furthest = _Furthest()
    for owner, pattern in patterns:
        for place, args in _readings(items(pattern), tokens, 0, {}, furthest):
            if place == len(tokens):
                return owner, args
            furthest.note(place, ())
    raise _error(text, tokens, furthest)


def _error(text: str, tokens: Sequence[Token], furthest: _Furthest) -> GuessError:
    return wrong(text, tokens, max(furthest.place, 0), furthest.wanted)


def _readings(
    left: tuple[Item, ...], tokens: Sequence[Token], place: int, args: Args, furthest: _Furthest
) -> Iterator[tuple[int, Args]]:
    """Every way in which the items can read the tokens from `place` on."""
    if not left:
        yield place, args
        return
    item, rest = left[0], left[1:]
    try:
        value, after = _read(item, tokens, place)
        yield from _readings(rest, tokens, after, args | {item.name: value}, furthest)
    except Stuck as stuck:
        furthest.note(stuck.place, stuck.wanted)
    if item.optional:
        yield from _readings(rest, tokens, place, args, furthest)


def _read(item: Item, tokens: Sequence[Token], place: int) -> tuple[Any, int]:
    if item.slot:
        return SLOTS[item.slot].read(tokens, place)
    if place < len(tokens) and tokens[place].key in item.words:
        return tokens[place].key, place + 1
    raise Stuck(place, item.words)
