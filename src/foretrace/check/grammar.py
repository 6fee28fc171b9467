"""Patterns: how a kind of prediction can be worded, and how a text is matched against all of them.

A pattern is a sentence with slots: `every|some {what:selector} has {field:field} [{value:value}]`.
Plain words stand for themselves, `a|b` is a choice, and `[…]` is optional. `{name:slot}` is read by
a slot: one of `SLOTS`, or one that the kind declares. A plain word is remembered under its own
name. The first pattern that reads the whole text wins. When none does, the error points at the
furthest word that any of them reached, and names the nearest valid word there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

from foretrace.base.patterns import regex
from foretrace.check.selection import CLOCKS, EXTREMES, PER_KERNEL, Measure
from foretrace.check.words import (
    PHRASES,
    UNITS,
    ParseFailure,
    Token,
    key_at,
    read_compare,
    read_count,
    read_number,
    read_phrase,
    read_selector,
    reader,
    wrong,
)

Owner = TypeVar("Owner")
Value = TypeVar("Value")
Args = dict[str, Any]
Words = tuple[str, ...]
Read = Callable[[Sequence[Token], int], tuple[Any, int]]

QUANTIFIERS = {
    **dict.fromkeys(("every", "each", "all"), "every"),
    **dict.fromkeys(("some", "a", "any"), "some"),
    "no": "no",
}
LONGEST_PHRASE = 8  # words
_ITEM = regex(
    r"(?P<open>\[)?(?:\{(?P<name>\w+):(?P<slot>\w+)\}|(?P<words>[^\s\[\]{}]+))(?P<close>\])?"
)


class Slot(NamedTuple):
    """`meaning` is one line for the manual; `read` takes the tokens and a place."""

    meaning: str
    read: Read


def one_of(words: Mapping[str, Any]) -> Read:
    """Reads one word and returns what it stands for."""

    def read(tokens: Sequence[Token], place: int) -> tuple[Any, int]:
        if key_at(tokens, place) in words:
            return words[key_at(tokens, place)], place + 1
        raise ParseFailure(place, words)

    return read


def _same(*words: str) -> Read:
    return one_of({word: word for word in words})


def read_name(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    """A name as in the trace: any word, or quoted text."""
    if place < len(tokens) and (tokens[place].quoted or tokens[place].text[0] not in "=<>!~,:±+"):
        return tokens[place].text, place + 1
    raise ParseFailure(place, ["a name (quote one that contains spaces)"])


def phrases(text: str) -> dict[Words, str]:
    """The table of lines such as `comms = comms; communication time`: name by words."""
    rows = (line.partition(" = ") for line in text.strip().splitlines())
    return {tuple(words.split()): name for name, _, said in rows for words in said.split("; ")}


def longest(
    table: Mapping[Words, Value], tokens: Sequence[Token], place: int
) -> tuple[Value | None, int]:
    """What the longest phrase of a table at this place stands for, and how many words it has."""
    keys = tuple([token.key for token in tokens[place : place + LONGEST_PHRASE]])
    size = len(keys)
    while size and keys[:size] not in table:
        size -= 1
    return table[keys[:size]] if size else None, size


def one_phrase(table: Mapping[Words, str], wanted: Iterable[str] = ()) -> Read:
    """Reads the longest phrase of a table; a failure names `wanted`, else the meanings."""
    named = tuple(wanted) or tuple(dict.fromkeys(table.values()))

    def read(tokens: Sequence[Token], place: int) -> tuple[str, int]:
        said, size = longest(table, tokens, place)
        if said is None:
            raise ParseFailure(place, named)
        return said, place + size

    return read


def phrase_table(texts: Iterable[str]) -> dict[Words, Words]:
    """The entries `what is written = how the language says it` of some tables."""
    found: dict[Words, Words] = {}
    lines = (line for text in texts for line in text.strip().splitlines())
    for entry in (entry for line in lines for entry in line.split(" ; ")):
        written, _, said = entry.partition(" =")
        for words in product(*map(choices, written.split())):
            found[tuple(filter(None, words))] = tuple(said.split())
    return found


def choices(word: str) -> list[str]:
    """The words that can stand in one place; an empty one where it can be left out."""
    return ["", *word[1:-1].split("|")] if word.startswith("[") else word.split("|")


def replaced(text: str, tokens: Sequence[Token], table: Mapping[Words, Words]) -> list[Token]:
    """The tokens with each phrase of a table as what it stands for; the longest one wins."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        said, size = longest(table, tokens, place)
        if said is None:
            found.append(tokens[place])
        else:
            at, end = tokens[place].at, tokens[place + size - 1].end
            found += [Token(word, at, written=text[at:end]) for word in said]
        place += max(size, 1)
    return found


def list_of(part: Read, *, least: int, joints: Words = (",", "and", "then")) -> Read:
    """Parts between commas, `and` or `then`."""

    def read(tokens: Sequence[Token], place: int) -> tuple[list[Any], int]:
        value, place = part(tokens, place)
        found = [value]
        while key_at(tokens, place) in joints:
            joint = place + 2 if key_at(tokens, place + 1) in joints[1:] else place + 1
            value, place = part(tokens, joint)
            found.append(value)
        if len(found) < least:
            raise ParseFailure(place, [",", "and"])
        return found, place

    return read


def _measure(tokens: Sequence[Token], place: int) -> tuple[Measure, int]:
    """`gpu time`, `cpu time`, `gemm time`, `pointwise bytes`; a selector alone is counted."""
    word, follower = key_at(tokens, place), key_at(tokens, place + 1)
    if word in (*CLOCKS, "step") and follower == "time":
        return Measure(f"{word} time", f"{word} time"), place + 2
    if word in CLOCKS and not follower.startswith("kernel"):
        raise ParseFailure(place + 1, ["time"])
    if f"{word} time" in EXTREMES:
        selector, after = read_selector(tokens, place + 1)
        if key_at(tokens, after) != "time":
            raise ParseFailure(after, ["time"])
        return Measure(f"{word} {selector.text} time", f"{word} time", selector), after + 1
    selector, after = read_selector(tokens, place)
    if key_at(tokens, after) == "plus":
        more, after = list_of(read_selector, least=1, joints=("plus",))(tokens, after + 1)
        if key_at(tokens, after) != "time":
            raise ParseFailure(after, ["time"])
        said = " plus ".join(each.text for each in (selector, *more))
        return Measure(f"{said} time", "time", selector, tuple(more)), after + 1
    quantity = key_at(tokens, after)
    if quantity in ("gpu", "cpu") and key_at(tokens, after + 1) == "time":
        clock = f"{quantity} time"
        return Measure(f"{selector.text} {clock}", clock, selector), after + 2
    if quantity in PER_KERNEL:
        return Measure(f"{selector.text} {quantity}", quantity, selector), after + 1
    return Measure(selector.text, "count", selector), after


SLOTS: dict[str, Slot] = {
    "selector": Slot("what is counted or judged; see Selectors", read_selector),
    "compare": Slot("==, !=, <, <=, >, >=, ~, or " + ", ".join(PHRASES), read_compare),
    "phrase": Slot(", ".join(PHRASES), read_phrase),
    "quantifier": Slot("every (each, all), some (a, any), no", one_of(QUANTIFIERS)),
    "count": Slot("a whole number, or zero to twelve", read_count),
    "number": Slot("a number, or zero to twelve", read_number),
    "name": Slot("a name as in the trace; `*` matches anything; quote one with spaces", read_name),
    "measure": Slot(
        "gpu time, cpu time, or a selector with time, flops or bytes behind it; a selector alone "
        "is counted",
        _measure,
    ),
    "other": Slot("A: the trace given with --against", _same("a", "other")),
    **{
        name: Slot(f"a number with a unit: {', '.join(units)}; `+- 5%` can follow", reader(name))
        for name, units in UNITS.items()
        if name != "count"
    },
}


class PatternItem(NamedTuple):
    """One place of a pattern: a slot, or a choice of words under the name of the first."""

    name: str
    read: Read
    optional: bool


Pattern = tuple[PatternItem, ...]


def items(pattern: str, own: Mapping[str, Slot] | None = None) -> Pattern:
    """The places of a pattern; its slots are those of `SLOTS`, and its owner's `own`."""
    slots, places = {**SLOTS, **(own or {})}, []
    for found in _ITEM.finditer(pattern):
        words = (found["words"] or "").split("|")
        read = slots[found["slot"]].read if found["slot"] else _same(*words)
        places.append(PatternItem(found["name"] or words[0], read, found["open"] is not None))
    return tuple(places)


class Furthest:
    """The furthest place that parsing reached, and what would be valid there."""

    def __init__(self) -> None:
        self.place = -1
        self.wanted: dict[str, None] = {}  # in order: of equally near words, the first is named

    def note(self, place: int, wanted: Iterable[str]) -> None:
        """Parsing reached `place`, where one of `wanted` would be valid."""
        if place > self.place:
            self.place, self.wanted = place, {}
        if place == self.place:
            self.wanted.update(dict.fromkeys(wanted))


def match(
    text: str, tokens: Sequence[Token], patterns: Iterable[tuple[Owner, Pattern]]
) -> tuple[Owner, Args]:
    """The owner of the first pattern that reads all of `tokens`, and what it read.

    `GuessError` when there is none.
    """
    furthest = Furthest()
    for owner, pattern in patterns:
        for place, args in readings(pattern, tokens, 0, {}, furthest):
            if place == len(tokens):
                return owner, args
            furthest.note(place, ())
    raise wrong(text, tokens, max(furthest.place, 0), furthest.wanted)


def readings(
    left: Pattern, tokens: Sequence[Token], place: int, args: Args, furthest: Furthest
) -> Iterator[tuple[int, Args]]:
    """Every way in which the items can read the tokens from `place` on."""
    if not left:
        yield place, args
        return
    item, rest = left[0], left[1:]
    try:
        value, after = item.read(tokens, place)
        yield from readings(rest, tokens, after, args | {item.name: value}, furthest)
    except ParseFailure as failure:
        furthest.note(failure.place, failure.wanted)
    if item.optional:
        yield from readings(rest, tokens, place, args, furthest)
