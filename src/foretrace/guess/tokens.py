"""The words of a prediction, and the error that points at the wrong one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foretrace.errors import UsageError

LONGEST = 2_000  # characters; longer than any sentence a person writes
_TOKEN = re.compile(
    r'\s*(?:"(?P<quoted>[^"]*)"|(?P<mark>==|!=|<=|>=|\+-|\+/-|[±<>=~,:])|(?P<word>(?:::|[^\s",:<>=!~±])+)|(?P<odd>\S))'
)


class GuessError(UsageError):
    """A prediction that cannot be read: `text`, the wrong `word`, where it stands (`at`), and the
    `nearest` valid one.
    """

    def __init__(
        self, text: str, word: str, at: int, problem: str, nearest: str = "", where: str = ""
    ) -> None:
        self.text, self.word, self.at, self.problem, self.nearest = text, word, at, problem, nearest
        super().__init__(self._drawing(where))

    def _drawing(self, where: str) -> str:
        """The text, a line of carets under the word, and what to do about it."""
        shown = "".join(letter if letter.isprintable() else " " for letter in self.text)
        carets = " " * self.at + "^" * max(len(self.word), 1)
        hint = f"; the nearest word that would do is `{self.nearest}`" if self.nearest else ""
        return f"{where or 'cannot read this guess'}\n  {shown}\n  {carets} {self.problem}{hint}"


@dataclass(frozen=True, slots=True)
class Token:
    """`text` as written (without its quotes), `at` where in the prediction it begins."""

    text: str
    at: int
    quoted: bool = False

    @property
    def key(self) -> str:
        """What a vocabulary is asked for: lower case; a quoted text is no word of the language."""
        return "" if self.quoted else self.text.lower()


def split(text: str) -> list[Token]:
    """`in mlp_fwd: kernels == 5` -> six tokens."""
    if len(text) > LONGEST:
        raise UsageError(f"a guess of {len(text):,} characters: {LONGEST:,} is the most")
    tokens = []
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if kind == "odd":
            raise GuessError(text, found[kind], found.start(kind), "has no meaning here")
        tokens.append(Token(found[kind], found.start(kind), kind == "quoted"))
    if not tokens:
        raise UsageError("an empty guess: write for example `in mlp_fwd: kernels == 5`")
    return tokens


def wrong(text: str, tokens: Sequence[Token], place: int, expected: Iterable[str]) -> GuessError:
    """The error for the token at `place`, where one of the `expected` words would have made sense."""
    words = list(dict.fromkeys(expected))
    wanted = ", ".join(words[:8]) + (", …" if len(words) > 8 else "")
    if place >= len(tokens):
        return GuessError(
            text, "", len(text.rstrip()) + 1, f"the guess ends too early; expected {wanted}"
        )
    token = tokens[place]
    if not words:
        return GuessError(
            text,
            token.text,
            token.at,
            f"`{token.text}` is too much: the guess is complete before it",
        )
    problem = f"`{token.text}` is not understood" + (
        f"; expected {wanted}" if len(words) <= 8 else ""
    )
    return GuessError(text, token.text, token.at, problem, nearest(token.text, words, 0.0))


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """The word most like `word`, the first of several that are equally like it, or an empty text."""
    measure = difflib.SequenceMatcher(b=word.lower()[:60])
    best, closeness = "", cutoff
    for candidate in words:
        measure.set_seq1(candidate.lower())
        # The two quick ratios are upper bounds of the real one, which costs a hundred times as
        # much.
        if best and (measure.real_quick_ratio() <= closeness or measure.quick_ratio() <= closeness):
            continue
        if measure.ratio() > closeness or (not best and measure.ratio() >= cutoff):
            best, closeness = candidate, measure.ratio()
    return best
