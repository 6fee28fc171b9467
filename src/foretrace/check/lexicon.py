"""The lexicon: phrases and their tags, and the quantities that a sentence names.

A table of `language.toml` says `tag = phrases`. `a|b` is a choice, `[a]` can be left out, and
`~burn` is every form of a verb. Numbers, shares, units and their comparisons are read by code.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from foretrace.base.patterns import regex
from foretrace.check.grammar import choices, longest
from foretrace.check.words import COUNTS, PHASES, UNITS, ParseFailure, Token, key_at, language

Tokens = Sequence[Token]
Tags = dict[str, Any]

_NUMBER = regex(r"(\d{1,3}(?:,\d{3})+|\d{1,15}(?:\.\d{1,6})?)(?:[-–](\d{1,9}(?:\.\d{1,6})?))?")
_FRACTION = regex(r"(\d{1,3})/(\d{1,3})|([a-z]+)-([a-z]+)")
_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: float(value) for value, word in enumerate((*COUNTS, *_TEENS.split()))}
_WORDS |= {"single": 1.0}
_WORDS |= {word: 20.0 + 10 * place for place, word in enumerate(_TENS.split())}
_SCALES = {"dozen": 12.0, "hundred": 100.0, "thousand": 1000.0, "k": 1000.0, "million": 1e6}
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "tenth": 10}
_PARTS |= {f"{word}s": value for word, value in _PARTS.items() if word != "half"}
_DIMENSIONS = {
    unit.lower(): (dimension, unit)
    for dimension in ("time", "bytes", "rate", "bandwidth", "share", "ratio")
    for unit in UNITS[dimension]
}
TAGS = {"count": "n", "share": "pct", "time": "dur", "bytes": "size", "ratio": "rat"}
_SLOWER = {"slower": "more than", "faster": "less than"}
_RATIOS = {"twice": 2, "double": 2, "triple": 3, "thrice": 3, "half": 0.5}
_FAR, _NEAR = 1.1, 1.25  # `well over 50%` is more than 55%, `just over 50%` less than 62%


class Heard(NamedTuple):
    """A quantity: its dimension, the comparison and the number, in the words of the language.

    `upper` is the other end of `between 20 and 30%` (of `a few`: two, with `|` between), `also`
    another reading of `well over 20%`. `lasting`: it was said with `longer than`, which is of one
    thing each.
    """

    dimension: str
    text: str
    upper: str = ""
    also: str = ""
    lasting: bool = False


@cache
def listed(name: str) -> frozenset[str]:
    """The words of a table that is a list."""
    return frozenset(language(name).split())


_BE = ("are", "was", "were", "be", "been", "being", "gets", "get", "got")


def _forms(verb: str) -> list[str]:
    """`~burn` in all its forms; a word without the mark is itself."""
    if not verb.startswith("~") or len(verb) < 3:
        return [verb]
    verb = verb[1:]
    stem = verb.removesuffix("e")
    past = f"{verb[:-1]}ied" if re.search(r"[^aeiou]y$", verb) else f"{stem}ed"
    third = f"{verb[:-1]}ies" if past.endswith("ied") else verb + "s"
    third = f"{verb}es" if re.search(r"(s|sh|ch|x|o)$", verb) else third
    doubled = [verb + verb[-1] + end for end in ("ed", "ing")]
    return [verb, third, past, f"{stem}ing", *doubled]


@cache
def lexicon(table: str = "lexicon") -> dict[tuple[str, ...], Tags]:
    """Phrase -> the tags that it can have."""
    found: dict[tuple[str, ...], Tags] = defaultdict(dict)
    for line in filter(None, language(table).splitlines()):
        name, _, phrases = line.partition(" = ")
        tag, _, value = name.partition(":")
        for phrase in phrases.split(" ; "):
            words_of = phrase.split()
            parts = [[f for each in choices(word) for f in _forms(each)] for word in words_of]
            if len(parts) > 1:  # `is spent on`, also with `are`, `was`, `gets`
                parts = [[*each, *_BE] if "is" in each else each for each in parts]
            for words in product(*parts):
                found[tuple(filter(None, words))][tag] = value
    return dict(found)


def _phrase(tokens: Tokens, place: int, table: str) -> tuple[str, int]:
    """The longest phrase of a table with one tag, as its value; empty where none is."""
    tags, size = longest(lexicon(table), tokens, place)
    return next(iter(tags or ("",))), place + size


def _number(tokens: Tokens, place: int) -> tuple[float, float | None, str, int]:
    """A number, the upper end of a range, what is written to it (`40ms`), the place behind it."""
    word = key_at(tokens, place)
    if found := _NUMBER.match(word):
        upper = float(found[2]) if found[2] else None
        glued, after = word[found.end() :], place + 1
        scale = _SCALES.get(glued or key_at(tokens, after), 1.0)
        after += scale > 1 and not glued
        return float(found[1].replace(",", "")) * scale, upper, glued * (scale == 1), after
    value = _WORDS.get(word)
    after = place + (value is not None)
    if key_at(tokens, after) in _SCALES:
        return (value or 1.0) * _SCALES[key_at(tokens, after)], None, "", after + 1
    if value is None:
        raise ParseFailure(place, ["a number"])
    return value, None, "", after


def _fraction(tokens: Tokens, place: int) -> tuple[float, int] | None:
    """`half`, `a third`, `two thirds`, `3/4`, `one in ten`, as a share."""
    first, second = key_at(tokens, place), key_at(tokens, place + 1)
    if found := _FRACTION.fullmatch(first):
        whole = float(found[2] or _PARTS.get(found[4], 0))
        count = float(found[1] or _WORDS.get(found[3], 0))
        return (count / whole, place + 1) if whole and count else None
    if first in _WORDS and second in _PARTS:
        return _WORDS[first] / _PARTS[second], place + 2
    if first in _WORDS and second == "in" and key_at(tokens, place + 2) in _WORDS:
        whole = _WORDS[key_at(tokens, place + 2)]
        return (_WORDS[first] / whole, place + 3) if whole > 1 else None
    return (1 / _PARTS[first], place + 1) if first in _PARTS else None


def _sign(tokens: Tokens, place: int) -> tuple[str, str, int]:
    """The comparison, how far it is meant (`well over`, `just under`), and the place behind it."""
    sign, after = _phrase(tokens, place, "comparators")
    if sign in ("well", "just"):
        more, behind = _phrase(tokens, after, "comparators")
        if more in ("more than", "less than", "slower", "faster"):
            return more, sign, behind
        sign, after = (more or "only", behind) if sign == "just" else ("", place)
    return sign, "", after


def quantity(tokens: Tokens, place: int) -> tuple[Heard, int]:
    """`more than 40%`, `about two thirds`, `between 1 and 2 ms`, `hundreds of`, `16`."""
    whole, after = _phrase(tokens, place, "shares")
    if whole:
        text, _, also = whole.partition(" || ")
        return Heard("share", text, also=also), after
    sign, far, at = _sign(tokens, place)
    vague, after = _phrase(tokens, at, "vague")
    if vague and sign in ("", "only", "about"):
        least, most = vague.split()
        dimension, unit, after = _unit(tokens, after, "")  # `several milliseconds`
        most = "|".join(f"at most {_shown(float(end), unit)}" for end in most.split("|"))
        return Heard(dimension, f"at least {_shown(float(least), unit)}", most), after
    if found := _fraction(tokens, at):
        share, after = found
        if sign == "between" and key_at(tokens, after) == "and":
            end = _fraction(tokens, after + 1)
            if end is None:
                raise ParseFailure(after, ["a share"])
            ends = (f"at least {share:.0%}", f"at most {end[0]:.0%}")
            return Heard("share", *ends), end[1]
        later, after = _phrase(tokens, after, "afterwards")
        sign = "about" if sign in ("", "exactly", "only") else _SLOWER.get(sign, sign)
        return _heard("share", later or sign, far, round(share * 100), "%"), after
    value, upper, glued, after = _number(tokens, at)
    if sign == "between" or (upper is None and key_at(tokens, after) == "to"):
        joint = after if glued else _unit(tokens, after, "")[2]
        if key_at(tokens, joint) not in ("and", "to"):
            raise ParseFailure(joint, ["and"])
        upper, _, glued, after = _number(tokens, joint + 1)
    dimension, unit, after = _unit(tokens, after, glued)
    if upper is not None:
        ends = (f"at least {_shown(value, unit)}", f"at most {_shown(upper, unit)}")
        return Heard(dimension, *ends), after
    if dimension in ("rate", "bandwidth"):  # what is slower has less of it
        sign = {"slower": "less than", "faster": "more than"}.get(sign, sign)
    sign = {"only": "exactly" if dimension == "count" else "about"}.get(sign, sign)
    later, after = _phrase(tokens, after, "afterwards")
    said = _heard(dimension, later or _SLOWER.get(sign, sign), far, value, unit)
    return said._replace(lasting=sign in _SLOWER), after


def _heard(dimension: str, sign: str, far: str, value: float, unit: str) -> Heard:
    """A quantity; `well over 50%` and `just over 50%` are two readings each."""
    text = f"{sign} {_shown(value, unit)}".strip()
    if not far or dimension == "count":
        return Heard(dimension, text)
    more = sign == "more than"
    if far == "well":
        return Heard(
            dimension, text, also=f"{sign} {_shown(value * (_FAR if more else 0.9), unit)}"
        )
    near = f"less than {_shown(value * _NEAR, unit)}" if more else None
    return Heard(dimension, text, also=near or f"more than {_shown(value / _NEAR, unit)}")


def _shown(value: float, unit: str) -> str:
    return f"{value:.10g}{unit}" if unit in ("%", "x", "") else f"{value:.10g} {unit}"


def _unit(tokens: Tokens, place: int, glued: str) -> tuple[str, str, int]:
    """The dimension, the unit, and the place behind it."""
    if glued:
        known = lexicon("units").get((glued,))
        found = _DIMENSIONS.get(next(iter(known)) if known else glued)
        if found is None:
            raise ParseFailure(place, ["a unit"])
        return *found, place
    word, after = _phrase(tokens, place, "units")
    found = _DIMENSIONS.get(word or key_at(tokens, place))
    if found is None or (found[1] == "B" and not word):
        return "count", "", place
    return *found, after if word else place + 1


def _times(tokens: Tokens, place: int) -> tuple[Heard | str, int]:
    """`once`, `twice`, `more than 100 times`, `a dozen to twenty times`."""
    at = place + (key_at(tokens, place) in ("exactly", "only", "just"))
    if key_at(tokens, at) in ("once", "twice"):
        return key_at(tokens, at), at + 1
    if key_at(tokens, place + 2) in ("once", "twice"):  # more than once
        sign, after = _phrase(tokens, place, "comparators")
        if after == place + 2:
            return f"{sign} {'1' if key_at(tokens, after) == 'once' else '2'} times", after + 1
    found, after = quantity(tokens, place)
    if found.dimension == "ratio" and found.text.endswith("x"):  # `12x per step`
        return f"{found.text[:-1]} times", after
    if found.dimension != "count" or key_at(tokens, after) not in ("times", "time"):
        raise ParseFailure(after, ["times"])
    upper = "|".join(f"{each} times" for each in found.upper.split("|") if each)
    return Heard("times", f"{found.text} times", upper), after + 1


def _ratio(tokens: Tokens, place: int) -> tuple[Heard, int]:
    """`twice`, `about 3x`, `5 times`, `at least twice`."""
    sign, far, at = _sign(tokens, place)
    if value := _RATIOS.get(key_at(tokens, at)):
        return _heard("ratio", sign, far, value, "x"), at + 1
    if found := _fraction(tokens, at):  # `a third of the time that B takes`
        return _heard("ratio", sign or "about", far, round(found[0], 2), "x"), found[1]
    heard, after = quantity(tokens, place)
    if heard.dimension == "count" and key_at(tokens, after) == "times" and not heard.upper:
        return Heard("ratio", f"{heard.text}x"), after + 1
    if heard.dimension != "ratio" or heard.upper:
        raise ParseFailure(place, ["twice", "3x"])
    return heard, after


def _who(tokens: Tokens, place: int) -> tuple[str, int]:
    """Whose work it is, as a scope: the program's, a step's, a pass's."""
    first = place
    while key_at(tokens, place) in listed("before_who"):
        place += 1
    word, follower = key_at(tokens, place), key_at(tokens, place + 1)
    if word in PHASES:
        return f"in {word}", place + 1 + (follower in ("pass", "step"))
    if word in ("decode", "prefill", "decoding", "generation"):
        served = "per pass" if word == "generation" else f"in {word.replace('ing', 'e')}"
        return served, place + 1 + (follower in ("step", "pass", "iteration", "forward", "call"))
    if word in ("step", "iteration", "iter") and not follower.isdecimal():
        return "per pass", place + 1
    if word in listed("who"):
        return "", place + 1
    # `training` by itself, which is also in `training run`
    if place > first and key_at(tokens, place - 1) in listed("who"):
        return "", place
    raise ParseFailure(place, ["step", "the program"])


def _whole(tokens: Tokens, place: int) -> tuple[str, int]:
    """What a share is of: `gpu time`, `kernel time`, `cpu time`, `time`, `step`."""
    words, of = [""], key_at(tokens, place) == "of"
    place += of
    of = of or (place > 0 and tokens[place - 1].key == "of")  # `a small part of` is a share
    while key_at(tokens, place) in listed("before_whole"):
        words.append(key_at(tokens, place))
        place += 1
    said, word, last = {*words}, key_at(tokens, place), words[-1]
    on_gpu = "kernel time" if said & {"kernel", "kernels"} else "gpu time"
    if word in ("time", "runtime", "work", "cycles", "duration", "timeline"):
        if said & {"cpu", "host"}:
            return "cpu time", place + 1
        named = said & {"kernel", "kernels", "gpu", "device", "busy"}
        if named:
            return on_gpu, place + 1
        return "step" if said & {"step", "iteration", "wall", "wall-clock"} else "time", place + 1
    if of and word in ("it", "trace", "profile", "run", "total", "recording", "everything"):
        return "time", place + 1
    if of and last in ("total", "whole", "run"):
        return "time", place
    if of and last in ("step", "iteration", "gpu"):
        return "step" if last in ("step", "iteration") else on_gpu, place
    raise ParseFailure(place, ["time"])


# tag -> what reads it; a quantity has the tag of its dimension
READERS: dict[str, Callable[[Tokens, int], tuple[Any, int]]] = {
    "": quantity,
    "times": _times,
    "rat": _ratio,
    "who": _who,
    "whole": _whole,
}
