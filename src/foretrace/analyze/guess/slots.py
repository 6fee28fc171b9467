"""A claim in free words, read by its slots: of whom it speaks, what is measured, how it compares.

`spoken` in `language.toml` maps many words to few. What says where a claim holds (`per step`, `on
the GPU`) is taken out, and what is left must be one of the `frames`: slots and words in an order.
Every word has to find its place: one that is left over refuses the claim. Only words that claim
nothing are dropped. A frame says the claim again in the words of the language; `&&` joins claims,
`||` readings of one claim that must agree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

from foretrace.analyze.guess.grammar import (
    Furthest,
    Pattern,
    Read,
    Slot,
    items,
    phrase_table,
    readings,
    replaced,
)
from foretrace.analyze.guess.words import (
    COUNTS,
    DTYPES,
    OPTIMIZERS,
    PHASES,
    TRAITS,
    UNITS,
    ParseFailure,
    Selector,
    Token,
    key_at,
    language,
    split,
    text_at,
)
from foretrace.base.errors import UsageError

Tokens = Sequence[Token]

_LONGEST_NOUN = 7  # words
_NUMBER = re.compile(r"(\d{1,3}(?:,\d{3})+|\d{1,15}(?:\.\d{1,6})?)(?:[-–](\d{1,9}(?:\.\d{1,6})?))?")
_FRACTION = re.compile(r"(\d{1,3})/(\d{1,3})|([a-z]+)-([a-z]+)")
_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: float(value) for value, word in enumerate((*COUNTS, *_TEENS.split()))}
_WORDS |= {word: 20.0 + 10 * place for place, word in enumerate(_TENS.split())}
_SCALES = {"dozen": 12.0, "hundred": 100.0, "thousand": 1000.0}
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "tenth": 10}
_PARTS |= {f"{word}s": value for word, value in _PARTS.items() if word != "half"}
_DIMENSIONS = {
    unit.lower(): (dimension, unit)
    for dimension in ("time", "bytes", "rate", "bandwidth", "share", "ratio")
    for unit in UNITS[dimension]
}
_SLOWER = {"slower": "more than", "faster": "less than"}
_NOUNS = ("a", "b", "c")  # slots of a frame that are selectors


class Named(NamedTuple):
    """A noun: how the language says it, and what it selects."""

    said: str
    selector: Selector


Noun = Callable[[str], Named | None]


class Heard(NamedTuple):
    """A quantity: its dimension, the comparison and the number, in the words of the language.

    `upper` is the other end of `between 20 and 30%`.
    """

    dimension: str
    text: str
    upper: str = ""


@cache
def _table(name: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    return phrase_table([language(name)])


@cache
def _listed(name: str) -> frozenset[str]:
    return frozenset(language(name).split())


def _phrase(tokens: Tokens, place: int, name: str) -> tuple[str, int]:
    """The longest phrase of a table at a place, as what it stands for; empty where none is."""
    table = _table(name)
    for size in range(min(6, len(tokens) - place), 0, -1):
        keys = tuple(token.key for token in tokens[place : place + size])
        if keys in table:
            return " ".join(table[keys]), place + size
    return "", place


def _number(tokens: Tokens, place: int) -> tuple[float, float | None, str, int]:
    """A number, the upper end of a range, what is written to it (`40ms`), the place behind it."""
    word = key_at(tokens, place)
    if found := _NUMBER.match(word):
        upper = float(found[2]) if found[2] else None
        return float(found[1].replace(",", "")), upper, word[found.end() :], place + 1
    value = _WORDS.get(word)
    after = place + (value is not None)
    if scale := _SCALES.get(key_at(tokens, after)):
        return (value or 1.0) * scale, None, "", after + 1
    if value is None:
        raise ParseFailure(place, ["a number"])
    return value, None, "", after


def _fraction(tokens: Tokens, place: int) -> tuple[float, int] | None:
    """`half`, `a third`, `two thirds`, `3/4`, as a share."""
    first, second = key_at(tokens, place), key_at(tokens, place + 1)
    if found := _FRACTION.fullmatch(first):
        whole = float(found[2] or _PARTS.get(found[4], 0))
        count = float(found[1] or _WORDS.get(found[3], 0))
        return (count / whole, place + 1) if whole and count else None
    if first in _WORDS and second in _PARTS:
        return _WORDS[first] / _PARTS[second], place + 2
    return (1 / _PARTS[first], place + 1) if first in _PARTS else None


def quantity(tokens: Tokens, place: int) -> tuple[Heard, int]:
    """`more than 40%`, `about two thirds`, `between 1 and 2 ms`, `hundreds of`, `16`."""
    whole, after = _phrase(tokens, place, "shares")
    if whole:
        return Heard("share", whole), after
    sign, at = _phrase(tokens, place, "comparators")
    vague, after = _phrase(tokens, at, "vague")
    if vague and not sign:
        least, most = vague.split()
        return Heard("count", f"at least {least}", f"at most {most}"), after
    if found := _fraction(tokens, at):
        sign = "about" if sign in ("", "exactly", "only") else _SLOWER.get(sign, sign)
        return Heard("share", f"{sign} {found[0]:.0%}"), found[1]
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
    sign = later or _SLOWER.get(sign, sign)
    return Heard(dimension, f"{sign} {_shown(value, unit)}".strip()), after


def _shown(value: float, unit: str) -> str:
    return f"{value:.10g}{unit}" if unit in ("%", "x", "") else f"{value:.10g} {unit}"


def _unit(tokens: Tokens, place: int, glued: str) -> tuple[str, str, int]:
    """The dimension, the unit, and the place behind it."""
    if glued:
        found = _DIMENSIONS.get(" ".join(_table("units").get((glued,), (glued,))))
        if found is None:
            raise ParseFailure(place, ["a unit"])
        return *found, place
    word, after = _phrase(tokens, place, "units")
    found = _DIMENSIONS.get(word or key_at(tokens, place))
    if found is None or (found[1] == "B" and not word):
        return "count", "", place
    return *found, after if word else place + 1


def _of(*dimensions: str) -> Read:
    def read(tokens: Tokens, place: int) -> tuple[Heard, int]:
        found, after = quantity(tokens, place)
        if found.dimension not in dimensions:
            raise ParseFailure(place, dimensions)
        return found, after

    return read


def _digits(tokens: Tokens, place: int) -> tuple[Heard, int]:
    """A share that is a number: not `all`, `most`."""
    if _phrase(tokens, place, "shares")[0]:
        raise ParseFailure(place, ["a number"])
    return cast("tuple[Heard, int]", _of("share")(tokens, place))


def _times(tokens: Tokens, place: int) -> tuple[str, int]:
    """`once`, `twice`, `more than 100 times`."""
    at = place + (key_at(tokens, place) in ("exactly", "only", "just"))
    if key_at(tokens, at) in ("once", "twice"):
        return key_at(tokens, at), at + 1
    found, after = quantity(tokens, place)
    if found.dimension == "ratio" and found.text.endswith("x"):  # `12x per step`
        return f"{found.text[:-1]} times", after
    if found.dimension != "count" or found.upper or key_at(tokens, after) not in ("times", "time"):
        raise ParseFailure(after, ["times"])
    return f"{found.text} times", after + 1


def _ratio(tokens: Tokens, place: int) -> tuple[str, int]:
    """`twice`, `about 3x`, `5 times`, `at least twice`."""
    sign, at = _phrase(tokens, place, "comparators")
    ratio = {"twice": "2x", "double": "2x", "triple": "3x", "half": "0.5x"}.get(key_at(tokens, at))
    if ratio:
        return f"{sign} {ratio}".strip(), at + 1
    found, after = quantity(tokens, place)
    if found.dimension == "count" and key_at(tokens, after) == "times" and not found.upper:
        return f"{found.text}x", after + 1
    if found.dimension != "ratio" or found.upper:
        raise ParseFailure(place, ["twice", "3x"])
    return found.text, after


def _who(tokens: Tokens, place: int) -> tuple[str, int]:
    """Whose work it is, as a scope: the program's, a step's, a pass's."""
    while key_at(tokens, place) in _listed("before_who"):
        place += 1
    word, follower = key_at(tokens, place), key_at(tokens, place + 1)
    if word in PHASES:
        return f"in {word}", place + 1
    if word in ("decode", "prefill", "decoding", "generation"):
        return "per pass", place + 1 + (follower in ("step", "pass", "iteration"))
    if word == "step" and not follower.isdecimal():
        return "per pass", place + 1
    if word in _listed("who"):
        return "", place + 1
    raise ParseFailure(place, ["step", "the program"])


def _whole(tokens: Tokens, place: int) -> tuple[str, int]:
    """What a share is of: `gpu time`, `kernel time`, `cpu time`, `time`, `step`."""
    words = [""]
    while key_at(tokens, place) in _listed("before_whole"):
        words.append(key_at(tokens, place))
        place += 1
    said, word, last = {*words}, key_at(tokens, place), words[-1]
    on_gpu = "kernel time" if said & {"kernel", "kernels"} else "gpu time"
    if word in ("time", "runtime", "work", "cycles", "duration"):
        if said & {"cpu", "host"}:
            return "cpu time", place + 1
        if said & {"step", "wall"}:
            return "step", place + 1
        named = said & {"kernel", "kernels", "gpu", "device", "busy"}
        return on_gpu if named else "time", place + 1
    if word in ("it", "trace", "profile", "run", "total"):
        return "time", place + 1
    if last in ("step", "gpu", "kernels"):
        return "step" if last == "step" else on_gpu, place
    raise ParseFailure(place, ["time"])


def _bound(tokens: Tokens, place: int) -> tuple[str, int]:
    """`launch-bound`, `limited by memory bandwidth`."""
    found, after = _phrase(tokens, place, "bounds_said")
    if not found:
        raise ParseFailure(place, ["host-bound"])
    return found, after


def _word(fits: Callable[[str], object]) -> Read:
    """One word as it is written: a type, the name of a range or of a call."""

    def read(tokens: Tokens, place: int) -> tuple[str, int]:
        if not fits(text_at(tokens, place)):
            raise ParseFailure(place, ["a name"])
        return text_at(tokens, place), place + 1

    return read


_MARK = re.compile(r"_|::|[a-z][A-Z]|\*")  # a name has one, a word none
_WORDS_READ: dict[str, Read] = {
    "n": _of("count"),
    "pct": _of("share"),
    "dur": _of("time"),
    "amount": _of("bandwidth", "rate"),
    "digits": _digits,
    "size": _of("bytes"),
    "rat": _ratio,
    "times": _times,
    "who": _who,
    "whole": _whole,
    "bound": _bound,
    "name": _word(_MARK.search),
    "dtype": _word(lambda word: word.lower() in (*DTYPES, "float32", "float16")),
    "optimizer": _word(lambda word: word.lower() in OPTIMIZERS),
    # `the three matmuls`: how many there are is not what is claimed
    "number": _word(lambda word: word.isdecimal() or word.lower() in COUNTS[2:]),
}


class _Nouns:
    """Slots that are nouns: the longest run of words that is one."""

    def __init__(self, noun: Noun) -> None:
        self.noun = noun
        self.slots: dict[str, Read] = {
            "np": self._some(lambda found: True),
            "op": self._some(lambda found: bool(found.word)),
            "trait": self._trait,
            "work": self._some(lambda found: any(each.kind != "dtype" for each in found.traits)),
            "place": self._place,
            "counts": self._counts,
        }

    def _named(self, tokens: Tokens, place: int) -> tuple[Named, int]:
        for size in range(min(_LONGEST_NOUN, len(tokens) - place), 0, -1):
            text = " ".join(token.text for token in tokens[place : place + size])
            if found := _noun(text, self.noun):
                return found, place + size
        raise ParseFailure(place, ["kernels, copies, an op"])

    def _some(self, fits: Callable[[Selector], bool]) -> Read:
        """A noun of one sort: an op by its word (`layer_norm`), a trait (`bf16`, `flash`)."""

        def read(tokens: Tokens, place: int) -> tuple[str, int]:
            found, after = self._named(tokens, place)
            if not fits(found.selector):
                raise ParseFailure(place, ["another noun"])
            return found.said, after

        return read

    def _trait(self, tokens: Tokens, place: int) -> tuple[str, int]:
        """What kernels can be: `bf16`, `nvjet kernels`."""
        found, after = self._named(tokens, place)
        if not _is_trait(found.selector):
            raise ParseFailure(place, ["a trait"])
        return found.said.removesuffix("s").removesuffix(" kernel"), after

    def _place(self, tokens: Tokens, place: int) -> tuple[str, int]:
        """A range, a module or an op: what is launched inside it is meant."""
        found, after = self._named(tokens, place)
        name = found.selector.name
        if found.selector.kind not in ("region", "module", "op") or name not in found.said:
            raise ParseFailure(place, ["a range"])
        return f'"{name}"', after

    def _counts(self, tokens: Tokens, place: int) -> tuple[str, int]:
        """`4 attention kernels and 26 gemms`: several counts, each a claim."""
        said, place = self._count(tokens, place)
        while key_at(tokens, place) in (",", "and", "plus"):
            more, place = self._count(tokens, place + 1 + (key_at(tokens, place + 1) == "and"))
            said = f"{said} && {more}"
        return said, place

    def _count(self, tokens: Tokens, place: int) -> tuple[str, int]:
        amount, after = _of("count")(tokens, place)
        found, after = self._named(tokens, after)
        if found.said in PHASES:  # `3 forward`: of what was said before
            raise ParseFailure(after, ["kernels"])
        # of modules, those that there are; each is called in every step
        what = f"distinct {found.said}" if found.selector.kind == "module" else found.said
        return " && ".join(f"{each} {what}" for each in (amount.text, amount.upper) if each), after


def _is_trait(found: Selector) -> bool:
    plain = not (found.name or found.word or found.under)
    return plain and bool(found.traits) and found.kind in ("kernel", "memcpy")


_BACKWARD_OF = re.compile(r"(forward|backward)(?: pass)? of ([^,]+)")


def _noun(text: str, noun: Noun) -> Named | None:
    """A noun, also with its words in another order: `elementwise ATen kernels`, `log softmax`."""
    if of := _BACKWARD_OF.fullmatch(text):
        text = f"{of[2]} {of[1]}"
    written, text = text, text.removesuffix(" forward and backward")
    text = "kernel" if text.lower() in ("kernels", "gpu kernels") else text
    if text.lower().endswith(" count"):
        return None
    traits_first = sorted(text.split(), key=lambda word: word.lower() not in TRAITS)
    found = noun(text) or noun(" ".join(traits_first))
    if found is None and text.endswith(" ops"):
        found = noun(f"aten::{text[:-4]}")
    if found is None and " and " not in text:
        joined = text.lower().replace(" ", "_")
        found = noun(joined)
        found = found if found and found.selector.word == joined else None
    # the word of an op means its forward alone
    unfit = found is None or found.selector.word in _listed("no_nouns")
    return None if unfit or (found and found.selector.word and written != text) else found


class Frame(NamedTuple):
    """A pattern, and how the language says what it has read."""

    pattern: Pattern
    said: str


@lru_cache(maxsize=4)
def frames(noun: Noun) -> tuple[Frame, ...]:
    """The frames of `language.toml`, in the order in which they are tried."""
    slots = {name: Slot("", read) for name, read in (_WORDS_READ | _Nouns(noun).slots).items()}
    macros: dict[str, str] = {}
    found = []
    for line in filter(None, language("frames").splitlines()):
        pattern, arrow, said = line.partition(" => ")
        pattern = re.sub(r"<([A-Z]+)>", lambda name: macros[name[1]], pattern)
        if not arrow:
            name, _, words = pattern.partition(" = ")
            macros[name] = words
        else:
            found.append(Frame(items(pattern, slots), said))
    return tuple(found)


def lowered(text: str, noun: Noun) -> Iterator[str]:
    """What a claim can mean, in the words of the language, the likeliest first."""
    try:
        tokens = [token for token in split(text) if token.key not in _listed("articles")]
    except UsageError:
        return
    for _ in range(4):  # for phrases of phrases
        tokens = replaced(text, tokens, _table("spoken"))
    where, clock, left = _placed(tokens)
    for frame in frames(noun):
        for after, args in readings(frame.pattern, left, 0, {}, Furthest()):
            if after == len(left) and (said := _said(frame.said, args, where, clock, noun)):
                yield said


def _placed(tokens: list[Token]) -> tuple[str, str, list[Token]]:
    """The scope, the clock, and the tokens that are left without them."""
    where, clock, left, place = "", "", list[Token](), 0
    while place < len(tokens):
        found, after = _phrase(tokens, place, "places")
        if found and not (left and left[-1].key == "of"):
            where, clock = (where, found) if found in ("gpu", "cpu") else (found, clock)
            place = after
            continue
        left += [tokens[place]] if tokens[place].key not in _listed("says_nothing") else []
        place += 1
    while left and left[-1].key == ",":
        del left[-1]
    return where, clock, left


def _said(template: str, args: dict[str, Any], where: str, clock: str, noun: Noun) -> str:
    """The claims and readings of a frame, each with its scope; empty where a word has no place."""
    who = args.get("who", "")
    if who and where not in ("", "everywhere", who) and who != "per pass":
        return ""
    if template.startswith("@here") and where in ("", "everywhere"):
        return ""  # a noun alone says nothing, but `one D2H copy every step` does
    template = template.removeprefix("@here ")
    nouns = [str(args[name]) for name in _NOUNS if name in args]
    phases = [each for each in nouns if each.split()[-1] in PHASES]
    if " plus " in template and phases and any(" " in each for each in nouns):
        return ""  # `attention forward and backward`: the second one is of attention too
    on_gpu = all((found := noun(each)) and found.selector.on_gpu for each in nouns)
    if (
        clock
        and not {"{clock}", "{on}"} & {*re.findall(r"\{\w+\}", template)}
        and not (clock == "gpu" and on_gpu)
    ):
        return ""
    total = " in total" if where == "everywhere" and template.endswith("takes {dur}") else ""
    whole = args.get("whole", "time")
    if not clock and whole not in ("time", "step"):
        clock = "cpu" if whole == "cpu time" else "gpu"
    clocks = [f" {clock}"] if clock else [""]
    if any(each.startswith(("region", "module")) for each in nouns) and "{clock}" in template:
        clocks = clocks if clock else [" gpu", " cpu"]  # it takes time on both
    filled = [
        _filled(
            template + total,
            args | {"clock": each, "on": each.strip() or "cpu", "who": "", "whole": whole},
        )
        for each in clocks
    ]
    return _scoped(" || ".join(filled), who if where in ("", "everywhere") else where)


def _scoped(claims: str, where: str) -> str:
    """Each reading of each claim, with the scope where it has none of its own."""
    parts = re.split(r"( && | \|\| )", claims)
    named = [
        part if ": " in part or not part.strip("&| ") else f"{where}: {part}" for part in parts
    ]
    return "".join(named) if where else claims


def _filled(template: str, args: dict[str, Any]) -> str:
    """The template with each quantity; one that lies between two ends makes two claims."""
    between = [name for name, v in args.items() if isinstance(v, Heard) and v.upper]
    if between:
        heard = args[between[0]]
        ends = (Heard(heard.dimension, text) for text in (heard.text, heard.upper))
        return " && ".join(_filled(template, args | {between[0]: end}) for end in ends)
    texts = {name: v.text if isinstance(v, Heard) else v for name, v in args.items()}
    filled = template.format_map(defaultdict(str, texts))  # what was left out is empty
    return re.sub(r"\s+", " ", filled).strip()
