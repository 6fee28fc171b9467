"""A sentence in an engineer's own words, as sentences of the language.

`spoken` is asked where the grammar does not read a text. It rewrites wordings (`own_words` in
`language.toml`), drops words that claim nothing, and splits a sentence of several claims at its
commas and conjunctions. The grammar reads each claim: a word that it does not know is never
dropped. A claim can have several readings (`||`), of which all must agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from foretrace.analyze.guess.words import language

Read = TypeVar("Read")

# A sentence with one of these says when or whether something holds: no claim of it stands alone.
_CONDITION = re.compile(
    r"\b(if|unless|except|either|n?or|whether|when|while|until|after|before|otherwise)\b"
)
_BREAK = re.compile(
    r" ?[,;:] (?:(?:and|but|so|because|since|thus|hence|i\.e\.) )?| (?:so|because|but) "
)
_AND = re.compile(" and ")
_VERB = re.compile(
    r"\b(is|are|was|has|have|uses?|runs?|takes?|goes|gets?|does|happens?|[a-z]+(?:es|ed))\b"
)
_COMPARED = "(?:(?:exactly|about|at least|at most|more than|less than|fewer than|over|under) )?"
_QUANTITY = re.compile(
    rf"(?P<count>{_COMPARED}(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve))"
    r"(?P<step> in each step| per step| per pass)?"
    rf"|(?P<share>{_COMPARED}[\d.]+ ?%(?: of .+)?)"
    r"|(?:(?:and|but) )?(?P<denied>not (?!\d).+)|(?:and )?(?:all|both|each) in (?P<type>\w+)"
    r"|(?P<more>(?:each|is|are|takes?|uses?|runs?|has|have)\b.+)"
)
# `, one per layer` behind a count: more than the count says, so it only stands beside a miss.
_SPREAD = re.compile(
    r"(?:exactly )?(?:one|two|three|\d+) (?:per|for each|for every|in each) \w+(?: \w+)?"
)
_NOT = re.compile(r"\b(?:(?:does|do|did|will) not|(?:does|do|did|wo)n't|not|never)\s")
# With one of these, what is denied is not clear: `not every`, `not in each step`.
_SOME = re.compile(
    r"\b(no|none|every|each|all|any|only|some|both|at least|at most|per|but|mostly)\b"
)
MOST_JOINTS = 8  # commas and conjunctions of a sentence; the parts between any two are read
_GROUP = re.compile(r"\{([A-Z]+)\}")


class SpokenClaim(NamedTuple):
    """What a part of a sentence says, or denies: `said` as it was read, each reading of it."""

    said: str
    readings: tuple[Any, ...]
    denied: bool = False


class Spoken(NamedTuple):
    """The claims of a sentence, and the parts that were not read."""

    claims: list[SpokenClaim]
    unread: list[str]


@cache
def _rules() -> list[tuple[re.Pattern[str], str]]:
    groups: dict[str, str] = {}
    found = []
    for line in filter(None, language("own_words").splitlines()):
        pattern, _, said = line.partition(" =>")
        pattern = _GROUP.sub(lambda name: groups[name[1]], pattern)
        if name := re.fullmatch(r"([A-Z]+) = (.+)", pattern):
            groups[name[1]] = f"(?:{name[2]})"
        else:
            found.append((re.compile(pattern, re.IGNORECASE), said.strip().replace("␣", " ")))
    return found


@lru_cache(maxsize=4096)
def rewritten(text: str) -> str:
    """The text in words that are nearer to those of the language."""
    for pattern, said in _rules():
        text = re.sub(r"\s+", " ", pattern.sub(said, text)).strip(" ,")
    return text


def spoken(
    text: str,
    read: Callable[[str], Read | None],
    subject: Callable[[Read], str],
    deniable: Callable[[Read], bool],
) -> Spoken | None:
    """The claims of a sentence; None where it has none that can be read, or a condition.

    `read` is the grammar, `subject` what a claim speaks of: `, 4 in total` says that of it again.
    `deniable`: whether a claim with a `not` is the opposite of the claim without it.
    """
    if '"' in text or _CONDITION.search(text.lower()):
        return None
    whole = rewritten(text.strip(" ?.!"))
    if len(_BREAK.findall(whole)) + len(_AND.findall(whole)) > MOST_JOINTS:
        return None
    known = cache(partial(_read, cache(read)))  # parts are met again in other splits

    @cache
    def split(part: str, about: str) -> list[SpokenClaim] | None:
        return _claims(part, about, known, split, subject, deniable)

    claims = split(whole, "")
    if claims is not None:
        return Spoken(claims, [])
    found, unread, about = [], [], ""
    for part in _BREAK.split(whole):
        own = split(part, about)
        about = about if own is None else subject(own[-1].readings[0])
        found += own or []
        unread += [] if own else [part]
    safe = all(_VERB.search(part) or _SPREAD.fullmatch(part) for part in unread)
    return Spoken(found, unread) if found and safe else None


def _read(read: Callable[[str], Read | None], text: str) -> list[SpokenClaim] | None:
    """Every claim of a rewritten part, each with all of its readings."""
    found = []
    for claim in text.split(" && "):
        readings = [read(_bare(each)) or read(each) for each in claim.split(" || ")]
        if None in readings:
            return None
        found.append(SpokenClaim(_bare(claim), tuple(readings)))
    return found


def _bare(text: str) -> str:
    """Without articles."""
    return re.sub(r"\b(an?|[Tt]he|its|our|their) ", "", text)


def _claims(
    text: str,
    about: str,
    read: Callable[[str], list[SpokenClaim] | None],
    split: Callable[[str, str], list[SpokenClaim] | None],
    subject: Callable[[Read], str],
    deniable: Callable[[Read], bool],
) -> list[SpokenClaim] | None:
    for candidate in _worded(text, about):
        if found := read(candidate):
            return found
    if len(_NOT.findall(text)) == 1 and not _SOME.search(text):
        for candidate in _worded(_NOT.sub("", text), ""):
            found = read(candidate)
            if found and len(found) == 1 and all(map(deniable, found[0].readings)):
                return [found[0]._replace(denied=True)]
    for joint in (_BREAK, _AND):
        for at in joint.finditer(text):
            left, right = text[: at.start()], text[at.end() :]
            first = split(left, about) if left and right else None
            if first:
                rest = split(right, subject(first[-1].readings[0]))
                if rest:
                    return [*first, *rest]
    return None


def _worded(text: str, about: str) -> Iterator[str]:
    """A part as it stands, rewritten, and with the subject of the part before it."""
    if not text:
        return
    yield text
    again = rewritten(text)
    yield again
    again = re.sub(r"^(it|they|these|those) ", "", again) if about else again
    found = _QUANTITY.fullmatch(again) if about else None
    if found is None:
        return
    if found["count"]:
        yield f"{found['count']} {about}{found['step'] or ''}"
    elif found["share"]:
        yield f"{about} takes {again}" if " of " in again else f"{about} takes {again} of time"
    elif found["type"]:
        yield f"{about} uses {found['type']}"
    elif found["denied"]:
        yield f"{about} is {found['denied']}"
    else:
        yield rewritten(f"{about} {again}")
