"""The holes of patterns: what each one accepts, word by word.

A slot reads as many tokens as belong to it and returns what they mean; when it cannot go on it
raises `Stuck` with the place and the words that would have done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foretrace.guess.amounts import COUNTS, NUMBER, UNITS, Amount, Compare, read_amount
from foretrace.guess.fields import read_field, read_value
from foretrace.guess.measures import CLOCKS, PER_KERNEL, Measure
from foretrace.guess.things import LINEAR_WORDS, Stuck, Thing, read_thing
from foretrace.guess.tokens import Token

__all__ = ["SLOTS", "Slot", "Stuck"]

Read = Callable[[Sequence[Token], int], tuple[Any, int]]

BOUNDS = ("overhead", "compute", "memory", "comms", "mixed")
OTHERS = ("a", "other")
QUANTIFIERS = {
    "every": "every",
    "each": "every",
    "all": "every",
    "some": "some",
    "a": "some",
    "any": "some",
    "no": "no",
}
_PHRASES = {
    "exactly": "==",
    "about": "~",
    "under": "<",
    "below": "<",
    "over": ">",
    "above": ">",
    "at most": "<=",
    "at least": ">=",
    "fewer than": "<",
    "less than": "<",
    "more than": ">",
    "up to": "<=",
}
_SYMBOLS = {"==": "==", "=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "~": "~"}


@dataclass(frozen=True, slots=True)
class Slot:
    """`meaning` is one line for the manual; `read` takes the tokens and a place."""

    meaning: str
    read: Read


def _at(tokens: Sequence[Token], place: int) -> str:
    return tokens[place].key if place < len(tokens) else ""


def _one_of(words: dict[str, Any]) -> Read:
    def read(tokens: Sequence[Token], place: int) -> tuple[Any, int]:
        if _at(tokens, place) in words:
            return words[_at(tokens, place)], place + 1
        raise Stuck(place, words)

    return read


def _compare(tokens: Sequence[Token], place: int) -> tuple[Compare, int]:
    start = place + 1 if _at(tokens, place) in ("is", "are") else place
    if _at(tokens, start) in _SYMBOLS:
        return Compare(_SYMBOLS[_at(tokens, start)]), start + 1
    return _phrase(tokens, start)


def _phrase(tokens: Sequence[Token], place: int) -> tuple[Compare, int]:
    for size in (2, 1):
        words = " ".join(token.key for token in tokens[place : place + size])
        if words in _PHRASES:
            return Compare(_PHRASES[words]), place + size
    first = _at(tokens, place)
    seconds = [
        phrase.split()[1] for phrase in _PHRASES if " " in phrase and phrase.split()[0] == first
    ]
    if seconds:
        raise Stuck(place + 1, seconds)
    raise Stuck(place, [*_SYMBOLS, *(phrase.split()[0] for phrase in _PHRASES)])


def _count(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
    word = _at(tokens, place)
    amount = read_amount(word, "", "count")
    if word in COUNTS:
        return Amount(str(COUNTS.index(word)), COUNTS.index(word)), place + 1
    if amount is None or amount.value % 1:
        raise Stuck(place, ["a whole number", *COUNTS])
    return amount, place + 1


def _amount(dimension: str) -> Read:
    """`56 us`, `56us`, `10%`, each with `+- 5%` or `+- 2 us` behind it."""

    def read(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
        amount, after = _plain_amount(tokens, place, dimension)
        if _at(tokens, after) not in ("+-", "+/-", "±", "within"):
            return amount, after
        if _at(tokens, after + 1).endswith("%"):
            slack, last = _plain_amount(tokens, after + 1, "share")
            wider = amount.within(share=slack.value)
        else:
            slack, last = _plain_amount(tokens, after + 1, dimension)
            wider = amount.within(far=slack.value)
        return replace(wider, text=f"{amount.text} +- {slack.text}"), last

    return read


def _plain_amount(tokens: Sequence[Token], place: int, dimension: str) -> tuple[Amount, int]:
    units = UNITS[dimension]
    word = tokens[place].text if place < len(tokens) else ""
    found = NUMBER.fullmatch(word)
    if found is None:
        raise Stuck(place, [f"a number with a unit ({', '.join(units)})"])
    if found[3]:
        amount, after = (
            read_amount(word[: len(word) - len(found[3])], _unit(found[3], units), dimension),
            place + 1,
        )
    else:
        follower = tokens[place + 1].text if place + 1 < len(tokens) else ""
        amount, after = read_amount(word, _unit(follower, units), dimension), place + 2
    if amount is None:
        raise Stuck(after - 1, units)
    return amount, after


def _unit(word: str, units: Iterable[str]) -> str:
    """A unit in any case, unless two units differ in case alone."""
    same = [
        unit
        for unit in units
        if word.lower() in (unit.lower(), f"{unit.lower()}s" if unit.endswith("FLOP") else "")
    ]
    return word if word in units else same[0] if len(same) == 1 else "?"


def _name(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    if place < len(tokens) and (tokens[place].quoted or tokens[place].text[0] not in "=<>!~,:±+"):
        return tokens[place].text, place + 1
    raise Stuck(place, ["a name (quote one that holds spaces)"])


def _list(part: Read, *, least: int) -> Read:
    """Parts between commas, `and` or `then`."""

    def read(tokens: Sequence[Token], place: int) -> tuple[list[Any], int]:
        value, place = part(tokens, place)
        found = [value]
        while _at(tokens, place) in (",", "and", "then"):
            joint = place + 2 if _at(tokens, place + 1) in ("and", "then") else place + 1
            value, place = part(tokens, joint)
            found.append(value)
        if len(found) < least:
            raise Stuck(place, [",", "and"])
        return found, place

    return read


def _chain(tokens: Sequence[Token], place: int) -> tuple[list[str], int]:
    value, place = _name(tokens, place)
    found = [value]
    while _at(tokens, place) == ">":
        value, place = _name(tokens, place + 1)
        found.append(value)
    return found, place


def _shape(tokens: Sequence[Token], place: int) -> tuple[list[int], int]:
    sizes = _at(tokens, place).split("x")
    if not all(size.isascii() and size.isdigit() and len(size) < 16 for size in sizes):
        raise Stuck(place, ["a shape such as 8192x768"])
    return [int(size) for size in sizes], place + 1


def _measure(tokens: Sequence[Token], place: int) -> tuple[Measure, int]:
    """`gpu time`, `cpu time`, `gemm time`, `pointwise bytes`; a thing alone is counted."""
    if _at(tokens, place) in CLOCKS:
        if _at(tokens, place + 1) != "time" and not _at(tokens, place + 1).startswith("kernel"):
            raise Stuck(place + 1, ["time"])
        if _at(tokens, place + 1) == "time":
            return Measure(f"{_at(tokens, place)} time", f"{_at(tokens, place)} time"), place + 2
    thing, after = read_thing(tokens, place)
    if _at(tokens, after) in PER_KERNEL:
        return Measure(f"{thing.text} {_at(tokens, after)}", _at(tokens, after), thing), after + 1
    return Measure(thing.text, "count", thing), after


def _link(tokens: Sequence[Token], place: int) -> tuple[Thing, int]:
    """A thing of the GPU, or a word that stands for a linear layer (`gate`, `down`, `q_proj`): a
    matrix product.
    """
    if _at(tokens, place) in LINEAR_WORDS:
        return read_thing([Token("gemm", tokens[place].at)], 0)[0].called(
            tokens[place].text
        ), place + 1
    try:
        return read_thing(tokens, place)
    except Stuck as stuck:
        raise Stuck(stuck.place, [*stuck.wanted, *LINEAR_WORDS]) from None


SLOTS: dict[str, Slot] = {
    "things": Slot("what is counted or judged; see Things", read_thing),
    "compare": Slot("==, !=, <, <=, >, >=, ~, or " + ", ".join(_PHRASES), _compare),
    "phrase": Slot(", ".join(_PHRASES), _phrase),
    "quantifier": Slot("every (each, all), some (a, any), no", _one_of(QUANTIFIERS)),
    "count": Slot("a whole number, or zero to twelve", _count),
    "field": Slot("a field of a kernel; see Fields", read_field),
    "value": Slot("a value of that field: a word, a number, a shape such as 256x128", read_value),
    "name": Slot(
        "a name as the trace spells it; `*` stands for anything; quoted when it holds spaces", _name
    ),
    "measure": Slot(
        "gpu time, cpu time, or things with time, flops or bytes behind them; things alone are "
        "counted",
        _measure,
    ),
    "chain": Slot("names between `>`, the outermost first", _chain),
    "sequence": Slot("two or more things between commas", _list(_link, least=2)),
    "several": Slot("one or more things, between commas or `and`", _list(read_thing, least=1)),
    "parts": Slot("two or more things, between commas or `and`", _list(read_thing, least=2)),
    "shapes": Slot(
        "one or more shapes such as 8192x768, between commas or `and`", _list(_shape, least=1)
    ),
    "bound": Slot(", ".join(BOUNDS), _one_of({bound: bound for bound in BOUNDS})),
    "other": Slot("A: the trace given with --against", _one_of({word: word for word in OTHERS})),
    **{
        name: Slot(
            f"a number with a unit: {', '.join(UNITS[name])}; `+- 5%` may follow", _amount(name)
        )
        for name in ("time", "bytes", "flops", "share", "ratio", "rate", "bandwidth")
    },
}
