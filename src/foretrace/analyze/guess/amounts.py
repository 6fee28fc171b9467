"""Numbers with units, their tolerance, and comparisons that can also answer "unknown".

A number means what its digits say: `38.65 GFLOP` holds for anything that rounds to 38.65,
`5 kernels` for exactly five. `+- 10%` or `+- 2 us` widens that; `about` stands for `+- 10%`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from foretrace.analyze.guess.tokens import ParseFailure, Token, key_at, text_at

# what `about` allows: the articles' own rounding ("10% faster" for 9%) is of this size
ABOUT = 0.10

# dimension -> {unit: its size in the base unit}. Base units: ns, bytes, FLOP, one, FLOP/s, bytes/s.
UNITS: dict[str, dict[str, float]] = {
    "time": {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "bytes": {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "flops": {"FLOP": 1, "kFLOP": 1e3, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15},
    "share": {"%": 0.01},
    "ratio": {"x": 1},
    "part": {"x": 1, "%": 0.01},
    "rate": {"GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15},
    "bandwidth": {"MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12},
    "count": {"": 1},
}
NUMBER = re.compile(r"(\d{1,15}(?:\.(\d{1,15}))?)(.*)")
_COUNT_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
COUNTS = tuple(_COUNT_WORDS.split())
SYMBOLS = {"=": "==", **{symbol: symbol for symbol in ("==", "!=", "<", "<=", ">", ">=", "~")}}
_WORDINGS = {
    "==": "exactly",
    "~": "about",
    "<": "under, below, fewer than, less than",
    ">": "over, above, more than",
    "<=": "at most, up to",
    ">=": "at least",
}
PHRASES = {phrase: symbol for symbol, text in _WORDINGS.items() for phrase in text.split(", ")}
_HOLDS: dict[str, Callable[[float, float], bool]]
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Amount:
    """`value` in base units; a difference up to `slack` still counts as equal."""

    text: str
    value: float
    slack: float = 0.0

    def within(self, share: float | None = None, far: float | None = None) -> Amount:
        """The same amount with a tolerance, as a share of itself or in base units."""
        slack = abs(self.value) * share if share is not None else far or 0.0
        return replace(self, slack=max(slack, self.slack))

    @property
    def exact(self) -> Amount:
        """The same amount without the tolerance of its digits; a stated `+-` stays."""
        return self if "+-" in self.text else replace(self, slack=0.0)


@dataclass(frozen=True, slots=True)
class Compare:
    """One of `==`, `!=`, `<`, `<=`, `>`, `>=`, `~`."""

    symbol: str

    def verdict(self, low: float, high: float, amount: Amount) -> str:
        """`hit` when all of `low` to `high` satisfies it, `miss` when none does, else unknown."""
        if self.symbol == "!=":
            equal = Compare("==").verdict(low, high, amount)
            return {"hit": "miss", "miss": "hit"}.get(equal, "unknown")
        if self.symbol in ("==", "~"):
            wanted = amount.within(share=ABOUT) if self.symbol == "~" else amount
            # A hair of room for the arithmetic: 0.1 + 0.2 must equal 0.3.
            slack = wanted.slack * (1 + 1e-9)
            least, most = wanted.value - slack, wanted.value + slack
            outside = "miss" if high < least or low > most else "unknown"
            return "hit" if least <= low and high <= most else outside
        answers = {_HOLDS[self.symbol](value, amount.value) for value in (low, high)}
        return "unknown" if len(answers) == 2 else "hit" if answers.pop() else "miss"

    def of(self, value: float, amount: Amount) -> str:
        """The verdict on one measured value."""
        return self.verdict(value, value, amount)


EQUALS = Compare("==")


def read_compare(tokens: Sequence[Token], place: int) -> tuple[Compare, int]:
    """`==`, `is at most`, `under`, …; `is` before a number is `==`."""
    start = place + 1 if key_at(tokens, place) in ("is", "are") else place
    word = key_at(tokens, start)
    if word in SYMBOLS:
        return Compare(SYMBOLS[word]), start + 1
    if start > place and (word in COUNTS or NUMBER.match(word)):
        return EQUALS, start
    return read_phrase(tokens, start)


def read_phrase(tokens: Sequence[Token], place: int) -> tuple[Compare, int]:
    """`at most`, `fewer than`, `about`, …"""
    for size in (2, 1):
        words = " ".join(token.key for token in tokens[place : place + size])
        if words in PHRASES:
            return Compare(PHRASES[words]), place + size
    starts = f"{key_at(tokens, place)} "
    seconds = [phrase.split()[1] for phrase in PHRASES if phrase.startswith(starts)]
    if seconds:
        raise ParseFailure(place + 1, seconds)
    raise ParseFailure(place, [*SYMBOLS, *(phrase.split()[0] for phrase in PHRASES)])


def read_number(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
    """`5`, `five`, `4.5`."""
    word = key_at(tokens, place)
    if word in COUNTS:
        return Amount(str(COUNTS.index(word)), COUNTS.index(word)), place + 1
    amount = _amount(word, "", "count")
    if amount is None:
        raise ParseFailure(place, ["a number"])
    return amount, place + 1


def read_count(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
    """`5`, `five`; nothing with a fraction."""
    wanted = ["a whole number", *COUNTS]
    try:
        amount, after = read_number(tokens, place)
    except ParseFailure:
        raise ParseFailure(place, wanted) from None
    if amount.value % 1:
        raise ParseFailure(place, wanted)
    return amount, after


def reader(dimension: str) -> Callable[[Sequence[Token], int], tuple[Amount, int]]:
    """Reads `56 us`, `56us`, `10%`, each with `+- 5%` or `+- 2 us` behind it."""

    def read(tokens: Sequence[Token], place: int) -> tuple[Amount, int]:
        amount, after = _plain(tokens, place, dimension)
        if key_at(tokens, after) not in ("+-", "+/-", "±", "within"):
            return amount, after
        relative = key_at(tokens, after + 1).endswith("%")
        slack, last = _plain(tokens, after + 1, "share" if relative else dimension)
        wider = amount.within(**{"share" if relative else "far": slack.value})
        return replace(wider, text=f"{amount.text} +- {slack.text}"), last

    return read


def _plain(tokens: Sequence[Token], place: int, dimension: str) -> tuple[Amount, int]:
    units, word = UNITS[dimension], text_at(tokens, place)
    found = NUMBER.fullmatch(word)
    if found is None:
        raise ParseFailure(place, [f"a number with a unit ({', '.join(units)})"])
    unit, after = (found[3], place + 1) if found[3] else (text_at(tokens, place + 1), place + 2)
    amount = _amount(found[1], _unit(unit, units), dimension)
    if amount is None:
        raise ParseFailure(after - 1, units)
    return amount, after


def _unit(word: str, units: Iterable[str]) -> str:
    """A unit in any case, unless two units differ in case alone."""
    if word in units:
        return word
    lower = word.lower()
    flops = lower.removesuffix("s") if lower.endswith("flops") else lower
    same = [unit for unit in units if unit.lower() in (lower, flops, f"{flops}/s")]
    return same[0] if len(same) == 1 else "?"


def _amount(text: str, unit: str, dimension: str) -> Amount | None:
    """`38.65` with `GFLOP` -> an amount as precise as it is written; None when it is not valid."""
    found = NUMBER.fullmatch(text)
    factor = UNITS[dimension].get(unit) if found and not found[3] else None
    if found is None or factor is None:
        return None
    slack = 0.0 if dimension == "count" else 0.5 * 10.0 ** -len(found[2] or "") * factor
    shown = f"{found[1]}{unit}" if unit in ("%", "x") else f"{found[1]} {unit}".rstrip()
    return Amount(shown, float(found[1]) * factor, slack)
