"""Other ways to say it: what people write for the words of the language.

Each entry of a table says `what is written = how the language says it`. `a|b` is a choice, `[a]`
can be left out. The longest match wins, and quoted text stays as it is. A kind of prediction
declares the phrases for its own words. Phrases in which `in` does not name a place are replaced
before the scope is split off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.selectors import HEADS, LINEAR_WORDS, op_words
from foretrace.analyze.guess.tokens import Token, language

Words = tuple[str, ...]

_COUNTED = (["total", "number", "of"], ["number", "of"], ["num"])  # before what is counted


def _table(texts: Iterable[str]) -> dict[Words, Words]:
    found: dict[Words, Words] = {}
    lines = (line for text in texts for line in text.strip().splitlines())
    for entry in (entry for line in lines for entry in line.split(" ; ")):
        written, _, said = entry.partition(" =")
        for words in product(*map(_choices, written.split())):
            found[tuple(filter(None, words))] = tuple(said.split())
    return found


def _choices(word: str) -> list[str]:
    """The words that can stand in one place; an empty one where it can be left out."""
    return ["", *word[1:-1].split("|")] if word.startswith("[") else word.split("|")


@cache
def _scoped() -> dict[Words, Words]:
    return _table([language("scoped"), *(kind.scoped for kind in kinds.every())])


@cache
def _plain() -> dict[Words, Words]:
    return _table([language("plain"), *(kind.phrases for kind in kinds.every())])


def scoped(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens of `text` with their scope in the language's words; no article, no question."""
    left = [token for token in tokens if token.key != "the"]
    asked = len(left) > 1 and left[0].key in ("does", "do", "will")
    return _said(text, left[asked:], _scoped())


def plain(text: str, tokens: Sequence[Token]) -> list[Token]:
    """What is left without the scope, in the language's words; twice, for phrases of phrases."""
    keys = [token.key for token in tokens[:3]]
    counted = next((len(words) for words in _COUNTED if keys[: len(words)] == words), 0)
    first = _said(text, tokens[counted:], _plain())
    if len(first) > 2 and first[0].key in ("is", "are"):  # are gelu and mul fused?
        first = [*first[1:-1], first[0], first[-1]]
    return _said(text, first, _plain())


def _said(text: str, tokens: Sequence[Token], table: dict[Words, Words]) -> list[Token]:
    longest, place = max(map(len, table)), 0
    found: list[Token] = []
    while place < len(tokens):
        keys = tuple(token.key for token in tokens[place : place + longest])
        size = next((n for n in range(len(keys), 0, -1) if keys[:n] in table), 0)
        if size:
            at, end = tokens[place].at, tokens[place + size - 1].end
            found += [Token(word, at, written=text[at:end]) for word in table[keys[:size]]]
        else:
            found.append(tokens[place])
        place += max(size, 1)
    return found


@cache
def _matters() -> list[tuple[list[str], str, list[str]]]:
    rows = [line.split("|") for line in language("matters").strip().splitlines()]
    return [(words.split(), text.strip(), stand_in.split()) for words, text, stand_in in rows]


def suggestion(text: str) -> str:
    """A prediction that can be parsed, about what the text seems to be about."""
    words = re.findall(r"[\w%/.:-]+", text.lower())
    scores = [
        (sum(any(_about(word, part) for part in parts) for word in words), -place)
        for place, (parts, _, _) in enumerate(_matters())
    ]
    best, place = max(scores)
    if not best:
        return "kernels == 5 per step"
    _, pattern, kernels = _matters()[-place]
    found = [word for word in dict.fromkeys(words) if _is_kernel(word)]
    return pattern.format(*_filled(found, kernels))


def _about(word: str, part: str) -> bool:
    """Whether a word is of a matter: it begins so, or has a long part or a sign of it inside."""
    return word.startswith(part) or ((len(part) > 4 or not part.isalpha()) and part in word)


def _is_kernel(word: str) -> bool:
    head = HEADS.get(word)
    known = head.kind == "kernel" if head else word in op_words()
    return (
        known
        and word not in (*LINEAR_WORDS, *language("everyday").split())
        and not word.startswith("kernel")
    )


def _filled(found: list[str], kernels: list[str]) -> list[str]:
    """The words of the text, and the example's own where there are too few."""
    rest = [word for word in kernels if word not in found]
    return [*found, *rest][: len(kernels)]
