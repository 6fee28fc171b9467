"""Predictions from text: in the words of the language, else in an engineer's own words.

People write other words than those of the language. Each entry of a table says `what is written =
how the language says it`. `a|b` is a choice, `[a]` can be left out. The longest match wins, and
quoted text stays as it is. Phrases in which `in` does not name a place are replaced before the
scope is split off.

What the grammar does not read is split into its claims, at commas and conjunctions; each is read as
it stands, else by its shape (see `reading`). A word that could change the answer is never dropped.
A claim can have several readings (`||`), of which all must agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import NamedTuple

from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.check import job_kinds, kinds
from foretrace.check.evidence import Evidence
from foretrace.check.grammar import Words, match, phrase_table, replaced
from foretrace.check.kinds import GuessKind
from foretrace.check.lattice import VERBS, Named
from foretrace.check.reading import SUBJECTS, ClaimReader, of_trace
from foretrace.check.selection import Measure
from foretrace.check.suggesting import suggestion
from foretrace.check.verdict import Verdict
from foretrace.check.windows import Scope, split_scope
from foretrace.check.words import (
    HEADS,
    PHASES,
    TRAITS,
    GuessError,
    ParseFailure,
    Selector,
    Token,
    language,
    read_selector,
    split,
    wrong,
)


@dataclass(frozen=True, slots=True)
class Guess:
    """One prediction: its text, why its author expects it, and what was parsed from it.

    `parts` are its claims, of which all must hold, or with `agree` its readings, which must have
    one verdict, or with `any_of` as well one of which must hold. With `denied` the opposite holds.
    `unread` is what was not understood, `left_out` what explains and is not judged.
    `by_slots`: it was read in other words than its own. `narrowed`: words that make what it speaks
    of smaller, in a way that is not known (`paged attention`).
    """

    text: str
    reason: str
    kind: GuessKind
    scope: Scope
    args: Mapping[str, object]
    prediction: str
    parts: tuple[Guess, ...] = ()
    agree: bool = False
    any_of: bool = False
    denied: bool = False
    unread: str = ""
    left_out: str = ""
    by_slots: bool = False
    narrowed: str = ""

    @property
    def expected(self) -> str:
        """What it wants in symbols, else the prediction without its scope."""
        if self.parts:
            return " and ".join(dict.fromkeys(part.text for part in self.parts))
        return self.kind.expected(self.args) or self.prediction

    @property
    def subject(self) -> str:
        """What it speaks of, in its own words; empty where it names nothing."""
        if self.kind.name == "calls":
            return str(self.args["call"])
        if self.kind.name == "top" and "kernel" in self.args:
            return f"{self.args['top']} kernel"  # `the longest kernel is a matmul, 60 us`
        left = self.args.get("left")
        hider = self.args.get("first") if "hides" in self.args else None
        named = self.args.get("what", self.args.get("trait", hider))
        selector = left.selector if isinstance(left, Measure) else named
        words = selector.text if isinstance(selector, Selector) else ""
        gpu = "gpu idle" if "idle" in self.args else "gpu busy" if "busy" in self.args else "gpu"
        return words or (gpu if self.kind.name == "bounds" else "")

    @property
    def about(self) -> tuple[str, str]:
        """What it speaks of, and where."""
        return self.subject, self.scope.text

    @property
    def readings(self) -> tuple[Guess, ...]:
        """Its parts; itself where it has none."""
        return self.parts or (self,)


def parse(text: str, reason: str = "", evidence: Evidence | None = None) -> Guess:
    """Parse one prediction; `GuessError` (a `UsageError`) points at the wrong word.

    With `evidence`, names of that trace are nouns as well.
    """
    try:
        return _parse(text, reason)
    except GuessError as error:
        found = heard(text, reason, evidence)
        if found is None:
            raise error.suggesting(suggestion(text)) from None
    modular = any('module "' in part.text for part in found.parts)
    if evidence and modular:  # `MLP is slower than attention`: the other one is a module too
        found = heard(text, reason, evidence, modules_first=True) or found
    return found


def heard(
    text: str, reason: str, evidence: Evidence | None, *, modules_first: bool = False
) -> Guess | None:
    """A prediction in free words; None where it is not understood."""
    own = of_trace(evidence, _noun, modules_first=modules_first) if evidence else _reader()
    found = spoken(text, own)
    if found is None:
        return None
    claims = tuple(replace(claim, by_slots=False) for claim in found.claims)
    return replace(
        claims[0],
        text=text,
        reason=reason,
        parts=claims,
        agree=False,
        any_of=False,
        denied=False,
        narrowed="",
        unread="; ".join(found.unread),
        left_out=found.left_out,
        by_slots=any(claim.by_slots for claim in found.claims),
    )


# kinds of one measured figure or fact, of which `not` says the opposite
_DENIABLE = frozenset(
    (
        *("ratios", "time", "top", "bounds", "overlap", "own_streams", "presence", "memory"),
        *("counts", "fusion", "sizes", "gaps"),
    )
)


def _deniable(guess: Guess) -> bool:
    one = not {"quantifier", "each", "not", "no"} & set(guess.args)
    return one and guess.scope.kind == "trace" and guess.kind.name in _DENIABLE


@lru_cache(maxsize=4096)
def _noun(text: str) -> Named | None:
    """The selector that a text is, as a whole."""
    try:
        tokens = split(text)
        for _ in range(2):  # for phrases of phrases
            tokens = replaced(text, tokens, _phrases("plain"))
        found, after = read_selector(tokens, 0)
    except (UsageError, ParseFailure):
        return None
    if after < len(tokens):
        return None
    # one word stays: `convolutions` are calls as well
    several = any(" " in token.written for token in tokens)
    said = " ".join(token.text for token in tokens)
    return Named(said if several else text, found)


@cache
def _reader() -> ClaimReader:
    """Reads claims with the nouns of the language alone."""
    return ClaimReader(_noun)


def _parse(text: str, reason: str = "") -> Guess:
    """Parse a prediction in the words of the language."""
    tokens = _plain_words(text, split(text.rstrip(" ?.!")))
    scope, words = split_scope(text, tokens)
    if not words:
        raise wrong(text, tokens, len(tokens), ["a prediction, such as kernels == 5"])
    kind, args = match(text, words, kinds.patterns())
    first, last = min(words, key=lambda word: word.at), max(words, key=lambda word: word.end)
    prediction = text[first.at - first.quoted : last.end].strip()
    return Guess(text, reason, kind, scope, args, prediction)


_COUNTED = (["total", "number", "of"], ["number", "of"], ["num"])  # before what is counted


@cache
def _phrases(*tables: str) -> dict[Words, Words]:
    return phrase_table(map(language, tables))


def _plain_words(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens in the words of the language: no article, no question."""
    left = [token for token in tokens if token.key != "the"]
    asked = len(left) > 1 and left[0].key in ("does", "do", "will")
    first = replaced(text, left[asked:], _phrases("around", "plain"))
    keys = [token.key for token in first[:3]]
    counted = next((len(words) for words in _COUNTED if keys[: len(words)] == words), 0)
    if len(first) > 2 and first[0].key in ("is", "are"):  # are gelu and mul fused?
        first = [*first[1:-1], first[0], first[-1]]
    return replaced(text, first[counted:], _phrases("around", "plain"))


def _or_error(read: Callable[[str, str], Guess], text: str, reason: str = "") -> Guess | Verdict:
    """A prediction, or a verdict `error` that says what is wrong with it: it stops no other."""
    try:
        return read(text, reason)
    except GuessError as error:
        carets = " " * error.at + "^" * max(len(error.word), 1)
        return Verdict(text, "error", why=error.advice, slice=(carets,), reason=reason)
    except UsageError as error:
        return Verdict(text, "error", why=str(error), reason=reason)


parse_or_error = partial(_or_error, parse)


EXAMPLE = "every rank: exposed comms < 10%"
OF_A_TRACE = "this is a prediction about one trace: check it on the file of a rank"


def parse_job(text: str, reason: str = "") -> Guess:
    """Parse one prediction about a job; `GuessError` points at the wrong word."""
    tokens = [token for token in split(text.rstrip(" ?.!")) if token.key != "the"]
    try:
        kind, args = match(text, tokens, job_kinds.patterns())
    except GuessError as error:
        if parsed(text):
            raise UsageError(OF_A_TRACE) from None
        raise error.suggesting(EXAMPLE) from None
    return Guess(text, reason, kind, Scope(), args, text)


parse_job_or_error = partial(_or_error, parse_job)


def parsed(text: str) -> Guess | None:
    """The prediction that a text is; None where it cannot be parsed."""
    try:
        return parse(text)
    except UsageError:
        return None


_WORDS = {*TRAITS, *HEADS} - {*PHASES}
_PARTS_OF = regex(r"\b(?:half|most|mostly|some|rest|each|both|only)\b")
_NO_PLACES = (
    "layer layers kernel call token head block launch sample use time order it here there list loop"
)


@lru_cache(maxsize=4096)
def _readable(text: str, by_slots: bool) -> Guess | None:
    """The prediction of a part; none of an op that is rather an everyday word (`all in bf16`),
    unless the slots of a sentence have it as a noun.
    """
    try:
        found = _parse(text)
    except UsageError:
        return None
    place = found.scope.name.lower() if found.scope.kind == "region" else ""
    unplaced = place in _NO_PLACES.split() or (":" in text and place in _WORDS)
    everyday = not by_slots and found.subject in language("everyday").split()
    # `cos and add` says no order
    listing = "sequence" in found.args and " and " in text and found.scope.kind == "trace"
    listing |= "sequence" in found.args and bool(_PARTS_OF.search(text))  # `half gemm, half mul`
    return None if unplaced or everyday or listing else found


# A sentence with one of these says when or whether something holds: no claim of it stands alone.
_CONDITION = regex(
    r"\b(if|unless|except|neither|nor|whether|when|until|after|before|otherwise"
    r"|but (?:one|two|three|\d+|the))\b"
)
_BREAK = regex(r" ?[,;:] (?:(?:and|but|so|because|since|thus|hence|i\.e\.) )?| (?:so|because|but) ")
_PLACE = regex(r"(?i)(in|per|for|at) ")
_AND = regex(" and ")
_VERB = regex(
    r"\b(is|are|was|has|have|uses?|runs?|takes?|goes|gets?|does|happens?|[a-z]+(?:es|ed)"
    r"|covers|means|keeps|needs|pulls|shows|stays|looks|comes|sits|waits|must|should|will)\b"
)
# `, one per layer` behind a count: more than the count says, so it only stands beside a miss.
_SPREAD = regex(
    r"(?:exactly )?(?:one|two|three|\d+) (?:per|for each|for every|in each)(?: of the \d+)? \w+"
    r"(?: \w+)?"
)
# `, inputs and labels` behind a claim: names for what it speaks of; no number, no verb
_LIST = regex(r"(?!no |not |all |each |every |only )[a-z]+ and (?!no |not )[a-z]+")
_NOT = regex(r"\b(?:(?:does|do|did|will) not|(?:does|do|did|wo)n't|not|never)\s")
# With one of these, what is denied is not clear: `not every`, `not in each step`.
_SOME = regex(r"\b(no|none|every|each|all|any|only|some|both|at least|at most|per|but|mostly)\b")
_PART = regex(r"\b(?:half|third|quarter|tenth|most|majority|part)\b|%")
MOST_JOINTS = 8  # commas and conjunctions of a sentence; the parts between any two are read


class Spoken(NamedTuple):
    """The claims of a sentence, the parts that were not read, and what only explains them."""

    claims: list[Guess]
    unread: list[str]
    left_out: str = ""


_IN_BRACKETS = regex(r" \(([^()]{1,60})\)")
# with one of these an aside claims something, or names it
_CLAIMS = regex(
    r"\d ?(?:%|x\b|[mun]?s\b|[kmgt]i?b)|[<>=]|\.\.\."
    r"|\b(?:not?|never|none|only|all|every|most|more|less|gpu|cpu)\b"
    r"|^(?:e\.g|i\.e|for example|like|such as)\b"
)


def _aside(text: str, reader: ClaimReader) -> tuple[str, str]:
    """Without what is in brackets, and that: `the optimizer (SGD)` says of SGD that it is used,
    `(8 layers)` explains.
    """
    found = _IN_BRACKETS.search(text)
    if found is None:
        return text, ""
    without = f"{text[: found.start()]}{text[found.end() :]}"
    name = f"kernel {found[1][:-3]}*" if found[1].endswith("...") else found[1]
    if reader.said(_bare(name)):
        return f"{without}, {name} is used", ""
    explains = not _CLAIMS.search(found[1].lower()) and _Splitter(reader).claims(found[1], ("", ""))
    return (without, found[0].strip()) if explains is None else (text, "")


def tidy(text: str) -> str:
    """One kind of apostrophe; asides between commas."""
    text = text.strip(" ?.!,")
    for pattern, said in _tidied():
        text = pattern.sub(said, text)
    return text.strip(" ?.!,")


@cache
def _tidied() -> list[tuple[re.Pattern[str], str]]:
    rows = (line.partition(" =>") for line in language("tidy").strip().splitlines())
    return [(re.compile(row[0]), row[2].strip().replace("␣", " ")) for row in rows]


def spoken(text: str, reader: ClaimReader) -> Spoken | None:
    """The claims of a sentence; None where it has none that can be read, or a condition."""
    text, left_out = _aside(text, reader)
    whole = tidy(text)
    if '"' in text or _CONDITION.search(whole.lower()):
        return None
    if " while " in whole or " whereas " in whole:
        return _contrasted(whole, reader)
    if len(_BREAK.findall(whole)) + len(_AND.findall(whole)) > MOST_JOINTS:
        return None
    split = _Splitter(reader).claims
    claims = split(whole, ("", ""))
    if claims is None and reader.said(_bare(whole)):  # `volta kernels`: there are some
        claims = split(f"there are {whole}", ("", ""))
    if claims is not None:
        return Spoken(claims, [], left_out)
    if premise := _premise(whole, split, reader):
        rest = spoken(whole[len(premise[0]) :], reader)
        return rest and rest._replace(left_out=rest.left_out or premise[1])
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
        about = about if own is None else own[-1].about
        found += own or []
        unread += [] if own else [part]
    unread = [part for part in unread if not (found and _only_names(part, reader))]
    if any(_PART.search(part) for part in unread):
        return None  # `half of each step passes, no work`: of a part
    if unread and not _VERB.search(_BREAK.split(whole)[0]):
        return None  # `one kernel, repeated, is all that runs`: its verb comes later
    safe = all(part in reasons or _VERB.search(part) or _SPREAD.fullmatch(part) for part in unread)
    return Spoken(found, unread, left_out) if found and safe else None


_PREMISE = regex(r"([a-z][\w -]{1,40}), so(?: that)? (?=.{12})", re.IGNORECASE)


def _premise(
    text: str, split: Callable[[str, tuple[str, str]], list[Guess] | None], reader: ClaimReader
) -> tuple[str, str] | None:
    """What a sentence starts from in a few words that claim nothing: `eager vLLM, so …`."""
    found = _PREMISE.match(text)
    if found is None or _VERB.search(found[1].lower()) or _CLAIMS.search(found[1].lower()):
        return None
    known = reader.said(_bare(found[1])) or split(found[1], ("", ""))
    return None if known or re.search(r"\d", found[1]) else (found[0], found[1])


def _only_names(part: str, reader: ClaimReader) -> bool:
    """`, inputs and labels`: what it speaks of, in words that are no nouns here."""
    return bool(_LIST.fullmatch(part)) and not any(map(reader.said, part.split(" and ")))


_CONTRAST = regex(r",? (?:while|whereas) ")


def _contrasted(text: str, reader: ClaimReader) -> Spoken | None:
    """`matmuls are bf16 while softmax is fp32`: both hold; `while the GPU is idle` is a time."""
    parts = [spoken(part, reader) for part in _CONTRAST.split(text)]
    claims = [claim for part in parts if part and not part.unread for claim in part.claims]
    kinds = {reading.kind.name for claim in claims for reading in claim.readings}
    whole = all(part and not part.unread for part in parts)
    return Spoken(claims, []) if whole and not kinds & {"presence", "bounds", "overlap"} else None


def _read(text: str, *, by_slots: bool = False, denied: bool = False) -> list[Guess] | None:
    """Every claim of a part, each with all of its readings."""
    found = []
    text, _, narrowed = text.partition(" ## ")
    for claim in text.split(" && "):
        opposite, claim = denied or claim.startswith("!"), claim.removeprefix("!")
        either = claim.split(" ?? " if " ?? " in claim else " || ")
        parts = [_readable(_bare(each), by_slots) or _readable(each, by_slots) for each in either]
        readings = tuple(part for part in parts if part)
        if len(readings) < len(parts):
            return None
        said, one = _bare(claim), readings[0]
        if readings[1:]:
            one = replace(one, text=said, parts=readings, agree=True, any_of=" ?? " in claim)
        if opposite:
            one = replace(one, text=f"not: {said}", parts=readings, denied=True)
        found.append(replace(one, narrowed=narrowed, by_slots=by_slots))
    return found


def _bare(text: str) -> str:
    """Without articles."""
    return re.sub(r"\b(an?|[Tt]he|its|our|their) ", "", text)


class _Splitter:
    """Splits a sentence; parts are met again in other splits."""

    def __init__(self, reader: ClaimReader) -> None:
        self.reader, self.claims = reader, cache(self._claims)

    def _claims(self, text: str, about: tuple[str, str]) -> list[Guess] | None:
        """What a part claims; `about` is what the one before it speaks of: `, 4 in total`."""
        reader = self.reader
        # `AdamW is fused, one kernel per step`: one of its own, or of all?
        if about[0] and _KERNELS.match(text) and reader.said(about[0]):
            return None
        if _OTHERS.match(text):  # than those before: not the role `other`
            return None
        of_subject = about[0] and (_OF_THOSE.fullmatch(text) or _LATE.match(text))
        if about[1] and not of_subject and (counted := self._counted(text, about[1])):
            return counted
        if not of_subject and (found := _read(text)):
            return found
        for candidate in _worded(text, about, reader):
            if found := _read(candidate, by_slots=True):
                return found
        part = _PART.search(_NOT.split(text)[0])  # `half of them are not`
        if len(_NOT.findall(text)) == 1 and not (part or _SOME.search(text)):
            for candidate in _worded(_NOT.sub("", text), ("", ""), reader):
                found = _read(candidate, by_slots=True)
                if found and len(found) == 1 and all(map(_deniable, found[0].readings)):
                    return _read(candidate, by_slots=True, denied=True)
        if each := self._of_each(text):
            return each
        for joint in (_BREAK, _AND):
            for at in joint.finditer(text):
                left, right = text[: at.start()], text[at.end() :]
                if joint is _BREAK and (found := self._of_topic(left, right, at[0])):
                    return found
                # a noun alone is no claim: `gemms and convs take half of the time`
                nouns = reader.said(_bare(left)) or reader.said(_bare(right))
                first = self.claims(left, about) if left and right and not nouns else None
                if first:
                    rest = self.claims(right, first[-1].about)
                    if not rest and not _KERNELS.match(right):
                        rest = self.claims(right, about)
                    if rest:
                        return [*first, *rest]
        return None

    def _counted(self, text: str, where: str) -> list[Guess] | None:
        """`5 all-reduces per step and 2 broadcasts`: 2 per step or in all, where that differs."""
        if not _BARE_COUNT.fullmatch(text):
            return None
        both = [_read(f"{where}: {text}"), _read(text)]
        readings = [found[0] for found in both if found and len(found) == 1]
        kinds = {each.kind.name for each in readings}
        if len(readings) < len(both) or kinds - {"counts", "presence"}:
            return None
        return [replace(readings[0], text=text, parts=tuple(readings), agree=True)]

    def _of_each(self, text: str) -> list[Guess] | None:
        """`sigmoid and tanh run in fp16` says it of both; of time it would be said of their sum."""
        for at in _AND.finditer(text):
            left, words = _bare(text[: at.start()]), text[at.end() :].split()
            sizes = (
                range(min(len(words) - 1, 4), 0, -1) if self.reader.said(left) else ()  # words
            )
            for size in sizes:
                right, rest = " ".join(words[:size]), " ".join(words[size:])
                if self.reader.said(_bare(right)):
                    both = [self.claims(f"{noun} {rest}", ("", "")) for noun in (left, right)]
                    found = [claim for claims in both for claim in claims or ()]
                    kinds = {each.kind.name for claim in found for each in claim.readings}
                    return found if all(both) and kinds <= _OF_EACH else None
        return None

    def _of_topic(self, topic: str, text: str, joint: str) -> list[Guess] | None:
        """What is said of a noun before a colon or a comma: `AdamW: foreach`."""
        listing = ":" not in joint and self.reader.begins(text, {"noun"})  # `pow, mean and …`
        named = self.reader.said(_bare(topic))
        if listing or not named:
            return None
        texts = [f"{topic} is {text}", f"{topic} {text}", f"{topic} takes {text}"]
        texts = [] if named.selector == Selector(named.said, "kernel") else texts  # `kernels: gelu`
        texts += [f"{text} {topic}"] if self.reader.begins(text, _AMOUNTS) else []
        said = (each for one in texts for each in self.reader.lowered(one))
        return next(filter(None, (_read(each, by_slots=True) for each in said)), None)


_OF_EACH = {"fields", "presence", "calls", "fusion"}  # kinds that are not of a sum
_PRONOUN = regex(r"(?:it|they|these|those|which|that|this) ")
# `, 4 in total`, `none per step`: of what was said
_AMOUNTS = frozenset(("n", "pct", "no", "every", "only", "some", "times", "mostly", "most"))
_KERNELS = regex(
    r"(?:exactly |about |only |just )?(?:an?|one|two|three|\d+) (?:kernels?|calls?)\b(?! launch)"
)
_OTHERS = regex(r"no (?:other|further) ")
_LATE = regex(r"(?:uses?|has|have) ")  # `and uses flash`: of what was said before
_OF_THEM = regex(r"(?<=[\w%] )of (?:them|these|those|(?:their|its)( time))\b")
_BARE_COUNT = regex(r"(?:two|three|four|five|six|\d+) [\w.:-]+(?: [\w.:-]+)?")
# calls, or a ratio of times; `for batch sizes 1, 8 and 32`: no counts
_HOW_OFTEN = regex(r"(?:\w+ )?(?:\w+) times (?:forward|backward)\b|\d+(?: and \d+)?$")
_IN_ALL = regex(r" (?:in (?:total|all)|overall|altogether)$")  # `one per step, 3 in total`
_OF_THOSE = regex(r"\w+ (?:forward|backward|in fp\d+|in bf16)")  # `3 forward`: of what was said


def _worded(text: str, about: tuple[str, str], reader: ClaimReader) -> Iterator[str]:
    """A part as it stands, by its slots, and with the subject and the place of the part before."""
    if not text:
        return
    subject, where = about
    if subject and _HOW_OFTEN.match(text):
        return
    where = "" if _IN_ALL.search(text) else where
    spoken_of = _PRONOUN.match(text) if subject else None
    subjects = SUBJECTS - {"who"} if text.lower().startswith("run") else SUBJECTS
    # it begins with its verb: of whom it speaks was said before
    late = bool(subject) and reader.begins(text, VERBS) and not reader.begins(text, subjects)
    if spoken_of is None and not late:
        yield from reader.lowered(text)
    bare = text[spoken_of.end() :] if spoken_of else text
    if subject and (them := _OF_THEM.search(text)):
        for named in (f"of {subject}", subject):
            said = f"{text[: them.start()]}{named}{them[1] or ''}{text[them.end() :]}"
            yield from reader.lowered(f"{where} {said}")
    if subject:
        for said in (f"{subject} {bare}", f"{subject} is {bare}", f"{subject} takes {bare}"):
            yield from reader.lowered(f"{where} {said}")
        if reader.begins(bare, _AMOUNTS):
            yield from reader.lowered(f"{where} {bare} {subject}")
    if spoken_of or late:
        yield f"{where}: {subject} {bare}" if where else f"{subject} {bare}"
        yield from reader.lowered(text)
