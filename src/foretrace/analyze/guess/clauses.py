"""A sentence in an engineer's own words, as sentences of the language.

`spoken` is asked where the grammar does not read a text. It splits a sentence of several claims at
its commas and conjunctions; each claim is read as it stands, else by its shape (see `reading`). A
word that could change the answer is never dropped. A claim can have several readings (`||`), of
which all must agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from foretrace.analyze.guess.reading import SUBJECTS, VERBS, ClaimReader
from foretrace.analyze.guess.words import language
from foretrace.base.patterns import regex

Read = TypeVar("Read")

# A sentence with one of these says when or whether something holds: no claim of it stands alone.
_CONDITION = regex(r"\b(if|unless|except|neither|n?or|whether|when|until|after|before|otherwise)\b")
_BREAK = regex(r" ?[,;:] (?:(?:and|but|so|because|since|thus|hence|i\.e\.) )?| (?:so|because|but) ")
_PLACE = regex(r"(?i)(in|per|for|at) ")
_AND = regex(" and ")
_VERB = regex(
    r"\b(is|are|was|has|have|uses?|runs?|takes?|goes|gets?|does|happens?|[a-z]+(?:es|ed))\b"
)
# `, one per layer` behind a count: more than the count says, so it only stands beside a miss.
_SPREAD = regex(
    r"(?:exactly )?(?:one|two|three|\d+) (?:per|for each|for every|in each) \w+(?: \w+)?"
)
# `, inputs and labels` behind a claim: names for what it speaks of; no number, no verb
_LIST = regex(r"(?!no |not |all |each |every |only )[a-z]+ and (?!no |not )[a-z]+")
_NOT = regex(r"\b(?:(?:does|do|did|will) not|(?:does|do|did|wo)n't|not|never)\s")
# With one of these, what is denied is not clear: `not every`, `not in each step`.
_SOME = regex(r"\b(no|none|every|each|all|any|only|some|both|at least|at most|per|but|mostly)\b")
MOST_JOINTS = 8  # commas and conjunctions of a sentence; the parts between any two are read


class SpokenClaim(NamedTuple):
    """What a part of a sentence says, or denies: `said` as it was read, each reading of it."""

    said: str
    readings: tuple[Any, ...]
    denied: bool = False
    by_slots: bool = False
    narrowed: str = ""


class Spoken(NamedTuple):
    """The claims of a sentence, and the parts that were not read."""

    claims: list[SpokenClaim]
    unread: list[str]


_IN_BRACKETS = regex(r" \(([^()]{1,60})\)")


def _aside(text: str, reader: ClaimReader) -> str:
    """`the optimizer (SGD) takes 2 ms` says of SGD that it is used."""
    found = _IN_BRACKETS.search(text)
    if found is None or not reader.said(found[1]):
        return text
    return f"{text[: found.start()]}{text[found.end() :]}, {found[1]} is used"


def tidy(text: str) -> str:
    """One kind of apostrophe; asides between commas."""
    for pattern, said in _tidied():
        text = pattern.sub(said, text)
    return text.strip(" ?.!,")


@cache
def _tidied() -> list[tuple[re.Pattern[str], str]]:
    rows = (line.partition(" =>") for line in language("tidy").strip().splitlines())
    return [(re.compile(row[0]), row[2].strip().replace("␣", " ")) for row in rows]


def spoken(
    text: str,
    read: Callable[[str, bool], Read | None],
    reader: ClaimReader,
    subject: Callable[[Read], tuple[str, str]],
    deniable: Callable[[Read], bool],
) -> Spoken | None:
    """The claims of a sentence; None where it has none that can be read, or a condition.

    `read` is the grammar, `reader` knows its nouns, `subject` is what a claim speaks of: `, 4 in
    total` says that of it again.
    `deniable`: whether a claim with a `not` is the opposite of the claim without it.
    """
    whole = tidy(_aside(text, reader))
    if '"' in text or _CONDITION.search(whole.lower()):
        return None
    if " while " in whole or " whereas " in whole:
        return _contrasted(whole, lambda part: spoken(part, read, reader, subject, deniable))
    if len(_BREAK.findall(whole)) + len(_AND.findall(whole)) > MOST_JOINTS:
        return None
    known = cache(partial(_read, cache(read)))  # parts are met again in other splits

    @cache
    def split(part: str, about: tuple[str, str]) -> list[SpokenClaim] | None:
        return _claims(part, about, known, reader, split, subject, deniable)

    claims = split(whole, ("", ""))
    if claims is not None:
        return Spoken(claims, [])
    found, unread, about = [], [], ("", "")
    reasons = set()  # parts that are claims of their own, however they are worded
    for at in _BREAK.finditer(whole):
        if ":" in at[0]:
            reasons.add(_BREAK.split(whole[: at.start()])[-1])
        if whole[at.end() :].startswith("of "):  # because of
            reasons.add(_BREAK.split(whole[at.end() :])[0])
    reasons = {part for part in reasons if " " in part and not _PLACE.match(part)}
    for part in _BREAK.split(whole):
        own = split(part, about) if not reader.said(_bare(part)) else None
        about = about if own is None else subject(own[-1].readings[0])
        found += own or []
        unread += [] if own else [part]
    unread = [part for part in unread if not (found and _LIST.fullmatch(part))]
    safe = all(part in reasons or _VERB.search(part) or _SPREAD.fullmatch(part) for part in unread)
    return Spoken(found, unread) if found and safe else None


_CONTRAST = regex(r",? (?:while|whereas) ")


def _contrasted(text: str, read: Callable[[str], Spoken | None]) -> Spoken | None:
    """`matmuls are bf16 while softmax is fp32`: both hold; `while the GPU is idle` is a time."""
    parts = [read(part) for part in _CONTRAST.split(text)]
    claims = [claim for part in parts if part and not part.unread for claim in part.claims]
    kinds = {reading.kind.name for claim in claims for reading in claim.readings}
    whole = all(part and not part.unread for part in parts)
    return Spoken(claims, []) if whole and not kinds & {"presence", "bounds", "overlap"} else None


def _read(
    read: Callable[[str, bool], Read | None], text: str, *, by_slots: bool = False
) -> list[SpokenClaim] | None:
    """Every claim of a part, each with all of its readings."""
    found = []
    text, _, narrowed = text.partition(" ## ")
    for claim in text.split(" && "):
        claim, denied = claim.removeprefix("!"), claim.startswith("!")
        parts = claim.split(" || ")
        readings = [read(_bare(each), by_slots) or read(each, by_slots) for each in parts]
        if None in readings:
            return None
        found.append(SpokenClaim(_bare(claim), tuple(readings), denied, by_slots, narrowed))
    return found


def _bare(text: str) -> str:
    """Without articles."""
    return re.sub(r"\b(an?|[Tt]he|its|our|their) ", "", text)


def _claims(
    text: str,
    about: tuple[str, str],
    read: Callable[..., list[SpokenClaim] | None],
    reader: ClaimReader,
    split: Callable[[str, tuple[str, str]], list[SpokenClaim] | None],
    subject: Callable[[Read], tuple[str, str]],
    deniable: Callable[[Read], bool],
) -> list[SpokenClaim] | None:
    # `AdamW is fused, one kernel per step`: one of its own, or of all?
    if about[0] and _KERNELS.match(text) and reader.said(about[0]):
        return None
    if not (about[0] and _OF_THOSE.fullmatch(text)) and (found := read(text)):
        return found
    for candidate in _worded(text, about, reader):
        if found := read(candidate, by_slots=True):
            return found
    if len(_NOT.findall(text)) == 1 and not _SOME.search(text):
        for candidate in _worded(_NOT.sub("", text), ("", ""), reader):
            found = read(candidate, by_slots=True)
            if found and len(found) == 1 and all(map(deniable, found[0].readings)):
                return [found[0]._replace(denied=True)]
    for joint in (_BREAK, _AND):
        for at in joint.finditer(text):
            left, right = text[: at.start()], text[at.end() :]
            # a noun alone is no claim: `gemms and convs take half of the time`
            both = left and right and not reader.said(_bare(left)) and not reader.said(_bare(right))
            first = split(left, about) if both else None
            if first:
                rest = split(right, subject(first[-1].readings[0])) or split(right, about)
                if rest:
                    return [*first, *rest]
    return None


_PRONOUN = regex(r"(?:it|they|these|those|which|that|this) ")
# `, 4 in total`, `none per step`: of what was said
_AMOUNTS = frozenset(("n", "pct", "no", "every", "only", "some", "times", "mostly", "most"))
_KERNELS = regex(r"(?:exactly |about |only |just )?(?:an?|one|two|three|\d+) kernels?\b(?! launch)")
_OF_THEM = regex(r"(?<=\w )of (?:them|these|those)\b")
_OF_THOSE = regex(r"\w+ (?:forward|backward|in fp\d+|in bf16)")  # `3 forward`: of what was said


def _worded(text: str, about: tuple[str, str], reader: ClaimReader) -> Iterator[str]:
    """A part as it stands, by its slots, and with the subject and the place of the part before."""
    if not text:
        return
    subject, where = about
    spoken_of = _PRONOUN.match(text) if subject else None
    subjects = SUBJECTS - {"who"} if text.lower().startswith("run") else SUBJECTS
    # it begins with its verb: of whom it speaks was said before
    late = bool(subject) and reader.begins(text, VERBS) and not reader.begins(text, subjects)
    if spoken_of is None and not late:
        yield from reader.lowered(text)
    bare = text[spoken_of.end() :] if spoken_of else text
    if subject and _OF_THEM.search(text):
        for named in (f"of {subject}", subject):
            yield from reader.lowered(f"{where} {_OF_THEM.sub(named, text)}")
    if subject:
        for said in (f"{subject} {bare}", f"{subject} is {bare}", f"{subject} takes {bare}"):
            yield from reader.lowered(f"{where} {said}")
        if reader.begins(bare, _AMOUNTS):
            yield from reader.lowered(f"{where} {bare} {subject}")
    if spoken_of or late:
        yield from reader.lowered(text)
