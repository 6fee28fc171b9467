"""The words of a prediction, and the error that points at the wrong one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foretrace.errors import UsageError

LONGEST = 2_000  # characters; longer than any sentence a person writes
_TOKEN = re.compile(
    r'\s*(?:"(?P<quoted>[^"]*)"|(?P<mark>==|!=|<=|>=|\+-|\+/-|[±<>=~,:])'
    r'|(?P<word>(?:::|[^\s",:<>=!~±])+)|(?P<odd>\S))'
)


class GuessError(UsageError):
    """A prediction that cannot be parsed.

    `word` is the wrong word of `text`, `at` its position, `nearest` the most similar valid word.
    """

    def __init__(
        self, text: str, word: str, at: int, problem: str, nearest: str = "", where: str = ""
    ) -> None:
        self.text, self.word, self.at, self.problem, self.nearest = text, word, at, problem, nearest
        shown = "".join(letter if letter.isprintable() else " " for letter in text)
        carets = " " * at + "^" * max(len(word), 1)
        hint = f"; the nearest valid word is `{nearest}`" if nearest else ""
        super().__init__(f"{where or 'cannot parse'}\n  {shown}\n  {carets} {problem}{hint}")

    def within(self, where: str) -> GuessError:
        """The same error with the place that the text comes from."""
        return GuessError(self.text, self.word, self.at, self.problem, self.nearest, where)


class ParseFailure(Exception):
    """Parsing cannot go on at `place`; one of `wanted` would be valid there."""

    def __init__(self, place: int, wanted: Iterable[str]) -> None:
        super().__init__(place)
        self.place, self.wanted = place, tuple(wanted)


@dataclass(frozen=True, slots=True)
class Token:
    """`text` as written, without its quotes; `at` is where it begins in the prediction."""

    text: str
    at: int
    quoted: bool = False

    @property
    def key(self) -> str:
        """The token as a word of the language: lower case; empty for quoted text."""
        return "" if self.quoted else self.text.lower()


def split(text: str) -> list[Token]:
    """`in mlp_fwd: kernels == 5` -> six tokens."""
    if len(text) > LONGEST:
        raise UsageError(f"the guess has {len(text):,} characters; the limit is {LONGEST:,}")
    tokens = []
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if kind == "odd":
            raise GuessError(text, found[kind], found.start(kind), "is not valid here")
        tokens.append(Token(found[kind], found.start(kind), kind == "quoted"))
    if not tokens:
        raise UsageError("the guess is empty: write for example `in mlp_fwd: kernels == 5`")
    return tokens


def key_at(tokens: Sequence[Token], place: int) -> str:
    """The word at `place`; empty past the end."""
    return tokens[place].key if place < len(tokens) else ""


def text_at(tokens: Sequence[Token], place: int) -> str:
    """The text at `place` as written; empty past the end."""
    return tokens[place].text if place < len(tokens) else ""


def wrong(text: str, tokens: Sequence[Token], place: int, expected: Iterable[str]) -> GuessError:
    """The error for the token at `place`, where one of the `expected` words would be valid."""
    words = list(dict.fromkeys(expected))
    wanted = ", ".join(words[:8]) + (", …" if len(words) > 8 else "")
    if place >= len(tokens):
        end = len(text.rstrip()) + 1
        return GuessError(text, "", end, f"ends too early; expected {wanted}")
    word, at = tokens[place].text, tokens[place].at
    if not words:
        return GuessError(text, word, at, f"`{word}` is unexpected: the prediction ends before it")
    problem = f"`{word}` is not understood" + (f"; expected {wanted}" if len(words) <= 8 else "")
    return GuessError(text, word, at, problem, nearest(word, words, 0.0))


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """The word most similar to `word`, the first of equals, or an empty text."""
    measure = difflib.SequenceMatcher(b=word.lower()[:60])
    best, closeness = "", cutoff
    for candidate in words:
        measure.set_seq1(candidate.lower())
        # The quick ratios are upper bounds of the real one, which costs a hundred times as much.
        if best and (measure.real_quick_ratio() <= closeness or measure.quick_ratio() <= closeness):
            continue
        if measure.ratio() > closeness or (not best and measure.ratio() >= cutoff):
            best, closeness = candidate, measure.ratio()
    return best
