"""A prediction that can be parsed, about the matter of a text that cannot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from foretrace.analyze.guess.words import HEADS, LINEAR_WORDS, language, op_words


@cache
def _matters() -> list[tuple[list[str], str, list[str]]]:
    rows = [line.split("|") for line in language("matters").strip().splitlines()]
    return [(words.split(), text.strip(), stand_in.split()) for words, text, stand_in in rows]


def suggestion(text: str, ran: Sequence[str] = ()) -> str:
    """A prediction that can be parsed, about what the text seems to be about.

    `ran` are words for kernels of a trace, which stand in where the text names too few.
    """
    words = re.findall(r"[\w%/.:-]+", text.lower())
    scores = [
        (sum(any(_about(word, part) for part in parts) for word in words), -place)
        for place, (parts, _, _) in enumerate(_matters())
    ]
    best, place = max(scores)
    if not best:
        return "kernels == 5 per step"
    _, pattern, kernels = _matters()[-place]
    found = [word for word in words if _is_kernel(word)]
    there = [word for word in kernels if word in ran] or [*ran]
    return pattern.format(*dict.fromkeys([*found, *there, *kernels]))


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
