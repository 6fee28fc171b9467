"""What a text that cannot be parsed may mean: the text without a few words, or its matter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import zip_longest

from foretrace.base.patterns import regex
from foretrace.check.evidence import Evidence
from foretrace.check.grammar import phrase_table
from foretrace.check.lattice import VERBS
from foretrace.check.lexicon import lexicon, listed
from foretrace.check.words import HEADS, LINEAR_WORDS, GuessError, language, op_words


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
    plain = word in (*LINEAR_WORDS, *listed("everyday")) or word.startswith("kernel")
    return known and not plain


_TRIED = 5  # names of a trace that may be what a wrong word means


def in_trace(error: GuessError, evidence: Evidence, reads: Callable[[str], bool]) -> str:
    """The sentence with the name of this trace that the wrong word is a part of, where that can be
    parsed; else a prediction about the same matter, of kernels that ran here.
    """
    word, text = error.word.lower(), error.text
    timed = "%" in text or "gpu" in text.lower()
    # Ops and calls whose names contain a word, the shortest first; then kernels.
    host = evidence.trace.host
    kinds_of = host.is_op | host.is_call
    names = {host.names[at] for at in set(host.name[kinds_of].tolist())} if len(word) > 2 else set()
    found = (name for name in names if word in name.lower() and re.fullmatch(r"[\w:]+", name))
    named = (one.name for one in evidence.operations if one.kind == "kernel")
    at = ((name, name.lower().find(word)) for name in named if len(word) > 2)
    kernels = {f"kernel *{name[place : place + len(word)]}*" for name, place in at if place >= 0}
    shortest = sorted(found, key=lambda name: (len(name), name))[:_TRIED]
    written = (name if reads(f"no {name}") else f'op "{name}"' for name in shortest)
    for name in [*written, *sorted(kernels, key=lambda name: word not in name)[:1]]:
        said = f"{name} kernels" if timed and "::" in name else name
        rest = text[error.at + len(error.word) :]
        rest = re.sub(r"^ kernels?\b", "", rest) if said.startswith("kernel ") else rest
        sentence = text[: error.at] + said + rest
        if reads(sentence):
            return sentence
    times = Counter[str]()
    for row, role in enumerate(evidence.trace.work_roles.tolist()):
        times[role] += int(evidence.trace.gpu.length[row])
    roles = [role for role, _ in times.most_common() if role in HEADS and role != "other"]
    done = {word for operation in evidence.operations for word in operation.does}
    return suggestion(text, [*roles, *sorted(done)])


_IN_A_ROW, _LEAST_LEFT = 4, 2  # words that may be left out, and that must be left


def shorter(text: str) -> Iterator[str]:
    """The text without some words in a row, the fewest first.

    Numbers and nouns stay, and words that turn or bound a claim (`not`, `at least`, `every`).
    """
    words = text.split()
    stays = [_claims(word, after) for word, after in zip_longest(words, words[1:], fillvalue="")]
    for count in range(1, min(_IN_A_ROW, len(words) - _LEAST_LEFT) + 1):
        for at in range(len(words) - count + 1):
            if any(stays[at : at + count]):
                continue
            if not (after := words[at + count :]) or after[0].lower() not in _BOUNDS:
                left = re.sub(_LOOSE_END, "", " ".join(words[:at] + words[at + count :]))
                if not _BROKEN.search(left) and _says_something(left):
                    yield left


def _claims(word: str, after: str) -> bool:
    word = word.lower().strip(",.;:!?")
    if word in _BOUNDS:
        return after[:1].isdigit() or after.lower() in listed("claiming")
    known = word in HEADS or (word in op_words() and word not in listed("everyday"))
    known |= word in _other_names() and not _is_verb(word)
    return known or not word.isalpha() or word in listed("claiming")


@cache
def _other_names() -> frozenset[str]:
    """Words that stand for a noun of the language: `layernorm`."""
    return frozenset(words[0] for words in phrase_table([language("plain")]) if len(words) == 1)


def _says_something(text: str) -> bool:
    """Whether a text has a verb or a number: `the linear layers` would be a count of them."""
    words = text.lower().split()
    return any(not word.isalpha() or word in listed("claiming") or _is_verb(word) for word in words)


def _is_verb(word: str) -> bool:
    return bool(VERBS & lexicon().get((word,), {}).keys())


_LOOSE_END = r" (the|an?|of|in|on|for|to)$"
# `waits for the at the end`, `the does no copies`, `a the kernel`
_BROKEN = regex(
    r"(?i)\b(?:an?|the|in|of|at|on|for|to|with|by|from) (?:(?:an?|the) )?"
    r"(?:of|in|at|on|for|to|with|does|do|is|are|has|have|takes?)\b"
    r"|\b(?:an?|the) (?:an?|the)\b|^(?:for|of|to|with|than|and|or)\b"
)
_BOUNDS = ("over", "under", "above", "below", "within", "from")  # before a number; else a place
