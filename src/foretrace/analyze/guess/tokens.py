"""The words of a prediction, and the error that points at the wrong one."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from foretrace.base.errors import UsageError

LONGEST = 2_000  # characters; longer than any sentence a person writes
_TOKEN = re.compile(
    r'\s*(?:"(?P<quoted>[^"]*)"|(?P<mark>==|!=|<=|>=|\+-|\+/-|[±<>=~,:])'
    # `52,856` is one number, as the pages print it
    # and so is `model.py:41` one place
    r'|(?P<word>(?:(?<![\w,.])\d{1,3}(?:,\d{3})+(?![\d,])|::|(?<=\.py):(?=\d)|[^\s",:<>=!~±])+)'
    r"|(?P<odd>\S))"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")


@cache
def tables() -> dict[str, Any]:
    """The tables of `language.toml`: words for the language, and for what it answers."""
    text = files(__package__).joinpath("language.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def language(table: str) -> str:
    """A table of words: one entry a line."""
    found: str = tables()[table]
    return found


class GuessError(UsageError):
    """A prediction that cannot be parsed.

    `word` is the wrong word of `text`, `at` its position, `nearest` the valid word that it may be a
    slip of, `example` a valid prediction about the same matter.
    """

    def __init__(
        self,
        text: str,
        word: str,
        at: int,
        problem: str,
        nearest: str = "",
        where: str = "",
        example: str = "",
    ) -> None:
        self.text, self.word, self.at, self.problem = text, word, at, problem
        self.nearest, self.example = nearest, example
        shown = "".join(letter if letter.isprintable() else " " for letter in text)
        carets = " " * at + "^" * max(len(word), 1)
        super().__init__(f"{where or 'cannot parse'}\n  {shown}\n  {carets} {self.advice}")

    @property
    def advice(self) -> str:
        """The problem and what to write instead, in one line."""
        meant = f"; did you mean `{self.nearest}`?" if self.nearest else ""
        example = f"; write for example `{self.example}`" if self.example and not meant else ""
        return f"{self.problem}{meant}{example}"

    def within(self, where: str) -> GuessError:
        """The same error with the place that the text comes from."""
        return self._with(where=where)

    def suggesting(self, example: str) -> GuessError:
        """The same error with a prediction that can be parsed."""
        return self._with(example=example)

    def _with(self, where: str = "", example: str = "") -> GuessError:
        example = example or self.example
        parts = (self.text, self.word, self.at, self.problem, self.nearest)
        return GuessError(*parts, where, example)


class ParseFailure(Exception):
    """Parsing cannot go on at `place`; one of `wanted` would be valid there."""

    def __init__(self, place: int, wanted: Iterable[str]) -> None:
        super().__init__(place)
        self.place, self.wanted = place, tuple(wanted)


@dataclass(frozen=True, slots=True)
class Token:
    """`text` without quotes; `at` is where it begins in the prediction.

    `written` is how the prediction says it, where `text` is another word for it.
    """

    text: str
    at: int
    quoted: bool = False
    written: str = ""

    @property
    def key(self) -> str:
        """The token as a word of the language: lower case; empty for quoted text."""
        return "" if self.quoted else self.text.lower()

    @property
    def end(self) -> int:
        """Where it ends in the prediction."""
        return self.at + len(self.written or self.text) + self.quoted


def split(text: str) -> list[Token]:
    """`in mlp_fwd: kernels == 5` -> six tokens."""
    if len(text) > LONGEST:
        raise UsageError(f"the guess has {len(text):,} characters; the limit is {LONGEST:,}")
    tokens = []
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if kind == "odd":
            raise GuessError(text, found[kind], found.start(kind), "is not valid here")
        word, at = found[kind], found.start(kind)
        plain = word.replace(",", "") if kind == "word" and _THOUSANDS.match(word) else word
        tokens.append(Token(plain, at, kind == "quoted", "" if plain == word else word))
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
    word, at = tokens[place].written or tokens[place].text, tokens[place].at
    if not words:
        return GuessError(text, word, at, f"`{word}` is unexpected: the prediction ends before it")
    problem = f"`{word}` is not understood" + (f"; expected {wanted}" if len(words) <= 8 else "")
    return GuessError(text, word, at, problem, _slip(word, words))


def _slip(word: str, words: Iterable[str]) -> str:
    """The valid word that `word` is one slip away from: a letter more, less, other, or two swapped.

    Anything further is chance: by letters alone `memory-bound` is near `more`.
    """
    found = (other for other in words if other[:1].lower() == word[:1].lower())
    return next((other for other in found if _one_edit(word.lower(), other.lower())), "")


def _one_edit(one: str, other: str) -> bool:
    start = _shared(one, other)
    one, other = one[start:], other[start:]
    end = _shared(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _shared(one: str, other: str) -> int:
    """How many letters two words begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


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
