"""Patterns: how a kind of prediction can be worded, and how a text is matched against all of them.

A pattern is a sentence with slots: `every|some {what:selector} has {field:field} [{value:value}]`.
Plain words stand for themselves, `a|b` is a choice, `{name:slot}` is read by a slot of `SLOTS`, and
`[…]` is optional; a plain word is remembered under its own name. The first pattern that reads the
whole text wins. When none does, the error points at the furthest word that any of them reached, and
names the nearest valid word there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, TypeVar

from foretrace.analyze.guess import amounts
from foretrace.analyze.guess.amounts import PHRASES, UNITS
from foretrace.analyze.guess.fields import Field, read_field, read_value
from foretrace.analyze.guess.measures import CLOCKS, PER_KERNEL, Measure
from foretrace.analyze.guess.quantities import read_cause, read_collective, read_quantity
from foretrace.analyze.guess.selectors import HEADS, LINEAR_WORDS, Selector, read_selector
from foretrace.analyze.guess.tokens import ParseFailure, Token, key_at, text_at, wrong

Owner = TypeVar("Owner")
Args = dict[str, Any]
Read = Callable[[Sequence[Token], int], tuple[Any, int]]

# what a step or a region can be bound by; `gpu` is any of the kernels' bounds
BOUNDS = ("host", "compute", "memory", "copy", "comms", "sync", "mixed", "gpu")
_BOUND_WORDS = {f"{bound}{end}": bound for bound in BOUNDS for end in ("", "-bound")}
_BOUND_WORDS["overhead"] = "host"  # its name before version 2
QUANTIFIERS = {
    **dict.fromkeys(("every", "each", "all"), "every"),
    **dict.fromkeys(("some", "a", "any"), "some"),
    "no": "no",
}
_ITEM = re.compile(
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


def _name(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    if place < len(tokens) and (tokens[place].quoted or tokens[place].text[0] not in "=<>!~,:±+"):
        return tokens[place].text, place + 1
    raise ParseFailure(place, ["a name (quote one that contains spaces)"])


def _list(part: Read, *, least: int) -> Read:
    """Parts between commas, `and` or `then`."""

    def read(tokens: Sequence[Token], place: int) -> tuple[list[Any], int]:
        value, place = part(tokens, place)
        found = [value]
        while key_at(tokens, place) in (",", "and", "then"):
            joint = place + 2 if key_at(tokens, place + 1) in ("and", "then") else place + 1
            value, place = part(tokens, joint)
            found.append(value)
        if len(found) < least:
            raise ParseFailure(place, [",", "and"])
        return found, place

    return read


def _chain(tokens: Sequence[Token], place: int) -> tuple[list[str], int]:
    value, place = _name(tokens, place)
    found = [value]
    while key_at(tokens, place) == ">":
        value, place = _name(tokens, place + 1)
        found.append(value)
    return found, place


def _shape(tokens: Sequence[Token], place: int) -> tuple[list[int], int]:
    sizes = key_at(tokens, place).split("x")
    if not all(size.isascii() and size.isdigit() and len(size) < 16 for size in sizes):
        raise ParseFailure(place, ["a shape such as 8192x768"])
    return [int(size) for size in sizes], place + 1


_REASON_WORDS = {
    "extern": "extern; extern kernel; extern kernels; library; library kernel; library call",
    "template": "template; template without epilogue; template without prologue",
    "order": "order; iteration order; other iteration order; loop order",
    "loops": "loop dimensions; other loop dimensions",
    "sizes": "sizes; different sizes; other sizes; size mismatch",
    "between": "kernels between; other kernels between",
    "mutation": "mutation; mutation between",
    "no_shared_data": "no shared data",
    "graph_break": "graph-breaks",
    "not_worth_it": "heuristics",
    "other": "another rule",
}
APART = {
    tuple(words.split()): reason
    for reason, text in _REASON_WORDS.items()
    for words in text.split("; ")
}


def _reason(tokens: Sequence[Token], place: int) -> tuple[str, int]:
    """Why two ops are apart: the longest of the known phrases."""
    left = [token.key for token in tokens[place:]]
    for size in range(min(len(left), 4), 0, -1):
        if tuple(left[:size]) in APART:
            return APART[tuple(left[:size])], place + size
    raise ParseFailure(place, [" ".join(words) for words in APART])


class CodeLine(NamedTuple):
    """A line of a Python file, or the whole file."""

    file: str
    number: int | None = None


_LINE = re.compile(r"(\S+\.py)(?::(\d{1,9}))?")


def _line(tokens: Sequence[Token], place: int) -> tuple[CodeLine, int]:
    found = _LINE.fullmatch(text_at(tokens, place))
    if found is None:
        raise ParseFailure(place, ["a line such as model.py:41"])
    return CodeLine(found[1], int(found[2]) if found[2] else None), place + 1


def _measure(tokens: Sequence[Token], place: int) -> tuple[Measure, int]:
    """`gpu time`, `cpu time`, `gemm time`, `pointwise bytes`; a selector alone is counted."""
    word, follower = key_at(tokens, place), key_at(tokens, place + 1)
    if word in CLOCKS and follower == "time":
        return Measure(f"{word} time", f"{word} time"), place + 2
    if word in CLOCKS and not follower.startswith("kernel"):
        raise ParseFailure(place + 1, ["time"])
    selector, after = read_selector(tokens, place)
    quantity = key_at(tokens, after)
    if quantity in PER_KERNEL:
        return Measure(f"{selector.text} {quantity}", quantity, selector), after + 1
    return Measure(selector.text, "count", selector), after


def _link(tokens: Sequence[Token], place: int) -> tuple[Selector, int]:
    """A selector, or a word that stands for a linear layer (`gate`, `down`): a matrix product."""
    if key_at(tokens, place) in LINEAR_WORDS:
        return replace(HEADS["gemm"], text=text_at(tokens, place)), place + 1
    try:
        return read_selector(tokens, place)
    except ParseFailure as failure:
        raise ParseFailure(failure.place, [*failure.wanted, *LINEAR_WORDS]) from None


def _own_field(tokens: Sequence[Token], place: int) -> tuple[Field, int]:
    """A field that says by itself which kernels are meant."""
    field, after = read_field(tokens, place)
    if not field.roles:
        raise ParseFailure(place, ["a field of one role of kernels, such as head_dim"])
    return field, after


SLOTS: dict[str, Slot] = {
    "selector": Slot("what is counted or judged; see Selectors", read_selector),
    "compare": Slot("==, !=, <, <=, >, >=, ~, or " + ", ".join(PHRASES), amounts.read_compare),
    "phrase": Slot(", ".join(PHRASES), amounts.read_phrase),
    "quantifier": Slot("every (each, all), some (a, any), no", one_of(QUANTIFIERS)),
    "count": Slot("a whole number, or zero to twelve", amounts.read_count),
    "number": Slot("a number, or zero to twelve", amounts.read_number),
    "field": Slot("a field of a kernel; see Fields", read_field),
    "own_field": Slot("a field that one role of kernels has, such as head_dim", _own_field),
    "value": Slot("a value of that field: a word, a number, a shape such as 256x128", read_value),
    "name": Slot("a name as in the trace; `*` matches anything; quote one with spaces", _name),
    "measure": Slot(
        "gpu time, cpu time, or a selector with time, flops or bytes behind it; a selector alone "
        "is counted",
        _measure,
    ),
    "reason": Slot(
        "extern kernel, template, iteration order, loop dimensions, different sizes, kernels "
        "between, mutation, no shared data, graph break, heuristics, another rule",
        _reason,
    ),
    "line": Slot("a line of Python such as model.py:41, or a file such as model.py", _line),
    "chain": Slot("names between `>`, the outermost first", _chain),
    "sequence": Slot("two or more selectors between commas", _list(_link, least=2)),
    "several": Slot("one or more selectors, with commas or `and`", _list(read_selector, least=1)),
    "parts": Slot("two or more selectors, with commas or `and`", _list(read_selector, least=2)),
    "shapes": Slot(
        "one or more shapes such as 8192x768, with commas or `and`", _list(_shape, least=1)
    ),
    "bound": Slot(", ".join(BOUNDS), one_of(_BOUND_WORDS)),
    "bounded": Slot(
        ", ".join(f"{bound}-bound" for bound in BOUNDS),
        one_of({f"{bound}-bound": bound for bound in BOUNDS}),
    ),
    "other": Slot("A: the trace given with --against", _same("a", "other")),
    "quantity": Slot(
        "of a job's ranks: step time, compute, exposed comms, comms, overlap, copies, idle, data, "
        "host, wait, transfer",
        read_quantity,
    ),
    "cause": Slot("compute, host, data, copies, other comms", read_cause),
    "collective": Slot("all-reduce, all-gather, reduce-scatter, all-to-all, …", read_collective),
    **{
        name: Slot(
            f"a number with a unit: {', '.join(units)}; `+- 5%` can follow", amounts.reader(name)
        )
        for name, units in UNITS.items()
        if name != "count"
    },
}


class PatternItem(NamedTuple):
    """One place of a pattern: a slot, or a choice of words under the name of the first."""

    name: str
    read: Read
    optional: bool


@cache
def items(pattern: str) -> tuple[PatternItem, ...]:
    """The places of a pattern."""
    return tuple(_item(found) for found in _ITEM.finditer(pattern))


def _item(found: re.Match[str]) -> PatternItem:
    optional, words = found["open"] is not None, (found["words"] or "").split("|")
    if found["slot"]:
        return PatternItem(found["name"], SLOTS[found["slot"]].read, optional)
    return PatternItem(words[0], _same(*words), optional)


class _Furthest:
    """The furthest place that parsing reached, and what would be valid there."""

    def __init__(self) -> None:
        self.place = -1
        self.wanted: dict[str, None] = {}  # in order: of equally near words, the first is named

    def note(self, place: int, wanted: Iterable[str]) -> None:
        if place > self.place:
            self.place, self.wanted = place, {}
        if place == self.place:
            self.wanted.update(dict.fromkeys(wanted))


def match(
    text: str, tokens: Sequence[Token], patterns: Iterable[tuple[Owner, str]]
) -> tuple[Owner, Args]:
    """The owner of the first pattern that reads all of `tokens`, and what it read.

    `GuessError` when there is none.
    """
    furthest = _Furthest()
    for owner, pattern in patterns:
        for place, args in _readings(items(pattern), tokens, 0, {}, furthest):
            if place == len(tokens):
                return owner, args
            furthest.note(place, ())
    raise wrong(text, tokens, max(furthest.place, 0), furthest.wanted)


def _readings(
    left: tuple[PatternItem, ...],
    tokens: Sequence[Token],
    place: int,
    args: Args,
    furthest: _Furthest,
) -> Iterator[tuple[int, Args]]:
    """Every way in which the items can read the tokens from `place` on."""
    if not left:
        yield place, args
        return
    item, rest = left[0], left[1:]
    try:
        value, after = item.read(tokens, place)
        yield from _readings(rest, tokens, after, args | {item.name: value}, furthest)
    except ParseFailure as failure:
        furthest.note(failure.place, failure.wanted)
    if item.optional:
        yield from _readings(rest, tokens, place, args, furthest)
