"""Parses predictions and marks them: `parse`, `check`, and the document of `check --json`.

People write other words than those of the language. Each entry of a table says `what is written =
how the language says it`. `a|b` is a choice, `[a]` can be left out. The longest match wins, and
quoted text stays as it is. A kind of prediction declares the phrases for its own words, and known
reasons why a sensible prediction misses; other packages add theirs. Phrases in which `in` does not
name a place are replaced before the scope is split off.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, TypeVar

from foretrace.analyze.guess import job_kinds, kinds
from foretrace.analyze.guess.clauses import SpokenClaim, spoken
from foretrace.analyze.guess.evidence import Evidence
from foretrace.analyze.guess.grammar import match
from foretrace.analyze.guess.job_kinds import JobQuery
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Miss, Query, Reason
from foretrace.analyze.guess.selection import Measure
from foretrace.analyze.guess.windows import NoSuchPlace, Scope, Unknown, split_scope, windows_of
from foretrace.analyze.guess.words import (
    COPIES,
    HEADS,
    LINEAR_WORDS,
    GuessError,
    Selector,
    Token,
    Trait,
    language,
    op_words,
    split,
    wrong,
)
from foretrace.base import plugins
from foretrace.base.errors import UsageError
from foretrace.model.opening import opened
from foretrace.model.trace import Trace
from foretrace.schema.documents.check import CheckDocument, MarkedGuess
from foretrace.schema.documents.job import JobDocument
from foretrace.schema.finding import Verdict, Verdicts


@cache
def every_reason() -> tuple[Reason, ...]:
    """All reasons, each name once: those of the kinds, then those of other packages."""
    own = {reason.name: reason for kind in kinds.every() for reason in kind.reasons}
    return (*(own[name] for name in sorted(own)), *_others())


@cache
def _others() -> tuple[Reason, ...]:
    return tuple(plugins.entries(Reason, "foretrace.reasons"))


def likely(kind: kinds.GuessKind, miss: Miss) -> str:
    """The reasons that fit, as text: those of the kind, and of other packages."""
    own = sorted(kind.reasons, key=lambda reason: reason.name)
    return " ".join(reason.text for reason in (*own, *_others()) if _fits(reason, miss))


def _fits(reason: Reason, miss: Miss) -> bool:
    try:
        return reason.explains(miss)
    except Exception:  # noqa: BLE001  another package's reason must not cost the reader the verdict
        return False


Words = tuple[str, ...]

_TRIED = 5  # names of a trace that may be what a wrong word means
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


def _scoped_words(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens of `text` with their scope in the language's words; no article, no question."""
    left = [token for token in tokens if token.key != "the"]
    asked = len(left) > 1 and left[0].key in ("does", "do", "will")
    return _said(text, left[asked:], _scoped())


def _plain_words(text: str, tokens: Sequence[Token]) -> list[Token]:
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
    found = [word for word in dict.fromkeys(words) if _is_kernel(word)]
    there = [word for word in kernels if word in ran] or [*ran][: len(kernels)]
    return pattern.format(*_filled(found, [*there, *kernels][: len(kernels)]))


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


def _in_trace(error: GuessError, evidence: Evidence) -> str:
    """The sentence with the name of this trace that the wrong word is a part of, where that can be
    parsed; else a prediction about the same matter, of kernels that ran here.
    """
    word, text = error.word.lower(), error.text
    timed = "%" in text or "gpu" in text.lower()
    for name in _names_like(word, evidence):
        said = f"{name} kernels" if timed and "::" in name else name
        rest = text[error.at + len(error.word) :]
        rest = re.sub(r"^ kernels?\b", "", rest) if said.startswith("kernel ") else rest
        sentence = text[: error.at] + said + rest
        if _reads(sentence):
            return sentence
    times = Counter[str]()
    for row, role in enumerate(evidence.trace.work_roles.tolist()):
        times[role] += int(evidence.trace.gpu.length[row])
    roles = [role for role, _ in times.most_common() if role in HEADS and role != "other"]
    done = {word for operation in evidence.operations for word in operation.does}
    return suggestion(text, [*roles, *sorted(done)])


def _names_like(word: str, evidence: Evidence) -> list[str]:
    """Ops and calls whose names contain a word, the shortest first; then kernels."""
    host = evidence.trace.host
    kinds_of = host.is_op | host.is_call
    names = {host.names[at] for at in set(host.name[kinds_of].tolist())} if len(word) > 2 else set()
    found = (name for name in names if word in name.lower() and re.fullmatch(r"[\w:]+", name))
    named = (one.name for one in evidence.operations if one.kind == "kernel")
    at = ((name, name.lower().find(word)) for name in named if len(word) > 2)
    kernels = {f"kernel *{name[place : place + len(word)]}*" for name, place in at if place >= 0}
    shortest = sorted(found, key=lambda name: (len(name), name))[:_TRIED]
    written = (name if _reads(f"no {name}") else f'op "{name}"' for name in shortest)
    return [*written, *sorted(kernels, key=lambda name: word not in name)[:1]]


def _advised(verdict: Verdict, evidence: Evidence, other: Evidence | None) -> Verdict:
    """The verdict on a text that cannot be parsed, with a sentence that fits this trace.

    A word that is a part of kernel names alone (`multi_tensor_apply`) means those kernels.
    """
    try:
        parse(verdict.text)
    except GuessError as error:
        example, word = _in_trace(error, evidence), error.word.lower()
        names = _names_like(word, evidence) if "_" in word and word not in LINEAR_WORDS else []
        part = len(names) == 1 and names[0].startswith("kernel ") and names[0] in example
        if part and (meant := parse(example)).kind.name != "top":  # several names: none is top
            found = mark(meant, evidence, other)
            return replace(found, text=verdict.text, reason=verdict.reason)
        if not error.nearest and mark(parse(example), evidence).verdict in ("error", "unknown"):
            bare = f"; write for example `{error.example}`"
            return replace(verdict, why=verdict.why.replace(bare, ""))
        fitting = error.suggesting(example)
        return replace(verdict, why=verdict.why.replace(error.advice, fitting.advice))
    except UsageError:
        pass
    return verdict


Asked = TypeVar("Asked", Query, JobQuery)


@dataclass(frozen=True, slots=True)
class Guess:
    """One prediction: its text, why its author expects it, and what was parsed from it.

    `parts` are its claims, of which all must hold, or with `agree` its readings, which must have
    one verdict. With `denied` the opposite of them holds. `unread` is what was not understood.
    """

    text: str
    reason: str
    kind: GuessKind
    scope: Scope
    args: Mapping[str, object]
    prediction: str
    parts: tuple[Guess, ...] = ()
    agree: bool = False
    denied: bool = False
    unread: str = ""

    @property
    def expected(self) -> str:
        """What it wants in symbols, else the prediction without its scope."""
        if self.parts:
            return " and ".join(dict.fromkeys(part.text for part in self.parts))
        return self.kind.expected(self.args) or self.prediction

    @property
    def subject(self) -> str:
        """What it speaks of, in its own words; empty where it names nothing."""
        left = self.args.get("left")
        selector = left.selector if isinstance(left, Measure) else self.args.get("what")
        words = selector.text if isinstance(selector, Selector) else ""
        return words or ("gpu" if self.kind.name == "bounds" else "")


def parse(text: str, reason: str = "") -> Guess:
    """Parse one prediction; `GuessError` (a `UsageError`) points at the wrong word."""
    try:
        return _parse(text, reason)
    except GuessError:
        found = spoken(text, _readable, lambda guess: guess.subject, _deniable)
        if found is None:
            raise
    claims = [_claimed(claim) for claim in found.claims]
    whole = _joined(text, claims)
    unread = "; ".join(found.unread)
    return replace(
        whole,
        text=text,
        reason=reason,
        parts=tuple(claims),
        agree=False,
        denied=False,
        unread=unread,
    )


def _claimed(claim: SpokenClaim) -> Guess:
    found = _joined(claim.said, list(claim.readings), agree=True)
    parts = found.parts or (found,)
    said = f"not: {claim.said}"
    return replace(found, text=said, parts=parts, denied=True) if claim.denied else found


# kinds of one measured figure or fact, of which `not` says the opposite
_DENIABLE = ("ratios", "time", "top", "bounds", "overlap", "own_streams", "presence", "memory")


def _deniable(guess: Guess) -> bool:
    one = not {"quantifier", "each", "not", "no"} & set(guess.args)
    return one and guess.scope.kind == "trace" and guess.kind.name in _DENIABLE


def _joined(text: str, parts: list[Guess], *, agree: bool = False) -> Guess:
    if len(parts) == 1:
        return parts[0]
    return replace(parts[0], text=text, parts=tuple(parts), agree=agree)


def _readable(text: str) -> Guess | None:
    """The prediction of a part; none of an op that is rather an everyday word (`all in bf16`)."""
    try:
        found = _parse(text)
    except UsageError:
        return None
    return None if found.subject in language("everyday").split() else found


def _parse(text: str, reason: str = "") -> Guess:
    """Parse a prediction in the words of the language."""
    tokens = _scoped_words(text, split(text.rstrip(" ?.!")))
    try:
        scope, left = split_scope(text, tokens)
        words = _plain_words(text, left)
        if not words:
            raise wrong(text, tokens, len(tokens), ["a prediction, such as kernels == 5"])
        kind, args = match(text, words, kinds.patterns())
    except GuessError as error:
        raise error.suggesting(suggestion(text)) from None
    first, last = min(words, key=lambda word: word.at), max(words, key=lambda word: word.end)
    prediction = text[first.at - first.quoted : last.end].strip()
    return Guess(text, reason, kind, scope, args, prediction)


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


def check(
    trace: Trace | str | os.PathLike[str],
    guesses: str | Guess | Verdict | Iterable[str | Guess | Verdict],
    against: Trace | str | os.PathLike[str] | None = None,
) -> Verdicts:
    """Mark each prediction on `trace`: hit, miss, unknown or error, with what was measured.

    A trace may be a path or the name of a recording; `against` is the one that predictions call
    `A`. Missing data is unknown, never a hit. A text that cannot be parsed, or a region that is not
    in the trace, is an error and stops no other.
    """
    listed = [guesses] if isinstance(guesses, str | Guess | Verdict) else list(guesses)
    parsed = [parse_or_error(guess) if isinstance(guess, str) else guess for guess in listed]
    evidence = Evidence(opened(trace))
    other = Evidence(opened(against)) if against is not None else None
    return Verdicts(
        _advised(guess, evidence, other)
        if isinstance(guess, Verdict)
        else mark(guess, evidence, other)
        for guess in parsed
    )


def mark(guess: Guess, evidence: Evidence, other: Evidence | None = None) -> Verdict:
    """Mark one prediction."""
    if guess.parts:
        return _mark_parts(guess, [mark(part, evidence, other) for part in guess.parts])
    found = _measured(guess, lambda: _query(guess, evidence, other))
    if isinstance(found, Verdict):
        return found
    query, measured = found
    measured = _with_helpers(guess, query, measured)
    if query is not None and measured.verdict == "miss":
        reasons = (measured.why, likely(guess.kind, Miss(guess.kind.name, query, measured)))
        why = " ".join(reason for reason in reasons if reason)
        return _verdict(guess, measured, why, *_deciding(measured))
    why, gap = measured.why, evidence.trace.ledger.gap
    if measured.verdict == "unknown" and gap and gap not in why:
        why = f"{gap}; {why}"  # an incomplete trace may lack the data because of the gap
    return _verdict(guess, measured, why)


def _with_helpers(guess: Guess, query: Query | None, found: Measurement) -> Measurement:
    """`convolutions` take what their ops launch, helpers and matmuls too; so do matmuls that are
    split; `copies` can be memcpys alone: unknown where the other reading has another verdict.
    """
    if query is None or guess.kind.name not in ("ratios", "time", "top"):
        return found
    wider = {name: _wider(value) for name, value in query.args.items()}
    if wider == query.args:
        return found
    try:
        other = guess.kind.measure(replace(query, args=wider))
    except Unknown:
        return found
    if other.verdict == found.verdict:
        return found
    measured = f"{found.measured}; in the other reading: {other.measured}"
    return replace(found, verdict="unknown", measured=measured, why=_SEVERAL)


_MATMULS = ("gemm", "gemms", "matmul", "matmuls")


def _wider(value: Any) -> Any:
    if isinstance(value, Measure) and value.selector:
        return replace(value, selector=_wider(value.selector))
    if isinstance(value, Selector) and value.text.lower() in COPIES:
        return replace(HEADS["memcpy"], text="memcpy")
    if isinstance(value, Selector) and value.text.lower() in _MATMULS:
        return replace(value, word="", traits=(Trait("matmul", ""),), written="")
    if not isinstance(value, Selector) or not value.written.lower().startswith("conv"):
        return value
    return replace(value, traits=(Trait("called", r"aten::\w*conv(\dd|olution|_)"),), written="")


def _mark_parts(guess: Guess, found: list[Verdict]) -> Verdict:
    """The verdict on several claims, or on several readings of one; a miss says which part."""
    verdicts = [each.verdict for each in found]
    if guess.agree:
        same = len(set(verdicts)) == 1
        worst = found[0] if same else replace(found[0], verdict="unknown", why=_SEVERAL)
    else:
        worst = min(found, key=lambda each: _WORST.index(each.verdict))
    if guess.denied:
        opposite = {"hit": "miss", "miss": "hit"}
        worst = replace(worst, verdict=opposite.get(worst.verdict, worst.verdict))
    several = len(found) > 1
    measured = [f"`{each.text}`: {each.measured or each.why}" for each in found]
    why = worst.why if not several or worst.verdict != "miss" else f"`{worst.text}` misses"
    if guess.unread and worst.verdict != "miss":
        why, verdict = f"`{guess.unread}` is not understood", "error"
        worst = replace(worst, verdict=verdict)
    why = " ".join(filter(None, (why, worst.why if why != worst.why and several else "")))
    return replace(
        worst,
        text=guess.text,
        measured="; ".join(measured) if several else found[0].measured,
        expected=guess.expected,
        why=why,
        reason=guess.reason,
    )


_WORST = ("miss", "error", "unknown", "hit")
_SEVERAL = "the sentence can be read in several ways, which differ here"


def _measured(
    guess: Guess, query: Callable[[], Asked]
) -> tuple[Asked | None, Measurement] | Verdict:
    """The query and what its kind measured; a verdict `error` where that is not possible."""
    try:
        asked = query()
        return asked, guess.kind.measure(asked)
    except Unknown as missing:
        return None, Measurement("unknown", "", str(missing))
    except NoSuchPlace as problem:
        why = str(problem)
    except Exception as problem:  # noqa: BLE001 - one bad kind must not hide the other verdicts
        why = f"the kind {guess.kind.name} failed: {type(problem).__name__}: {problem}"
    return _verdict(guess, Measurement("error", ""), why)


def _verdict(
    guess: Guess,
    found: Measurement,
    why: str,
    lines: tuple[str, ...] = (),
    events: tuple[int, ...] = (),
) -> Verdict:
    facts = (guess.text, found.verdict, found.measured, guess.expected, why)
    return Verdict(*facts, lines, guess.reason, events)


def _query(guess: Guess, evidence: Evidence, other: Evidence | None) -> Query:
    windows = windows_of(guess.scope, evidence)
    if other is None:
        said = guess.text.lower()
        says_gpu = any(word in said for word in ("gpu", "cuda", "kernel"))
        timed = re.search(r"\b(gpu|kernel|device) time|\bon (the )?(gpu|device)\b", said)
        return Query(
            guess.args, guess.scope, windows, says_gpu=says_gpu, says_gpu_time=timed is not None
        )
    try:
        return Query(guess.args, guess.scope, windows, windows_of(guess.scope, other))
    except (Unknown, NoSuchPlace) as missing:
        return Query(guess.args, guess.scope, windows, None, f"in A: {missing}")


def _deciding(found: Measurement) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The lines of the trace that decide a miss, and the ids of their events."""
    window = found.window
    if window is None or not (found.rows or found.events):
        return found.lines, tuple(found.events)
    ids = [int(window.evidence.trace.gpu.id[row]) for row in found.rows] + found.events
    lines = window.lines(found.rows, found.events)
    return (*found.lines, f"{window.label}:", *lines), tuple(ids)


def document(verdicts: Iterable[Verdict]) -> CheckDocument:
    """The verdicts as `foretrace check --json` prints them."""
    marked = [
        MarkedGuess(each.text, each.verdict, each.measured, each.expected, each.why)
        for each in verdicts
    ]
    counts = Counter(each.verdict for each in marked)
    return CheckDocument(1, counts["hit"], counts["miss"], counts["unknown"], marked)


EXAMPLE = "every rank: exposed comms < 10%"
OF_A_TRACE = "this is a prediction about one trace: check it on the file of a rank"


def parse_job(text: str, reason: str = "") -> Guess:
    """Parse one prediction about a job; `GuessError` points at the wrong word."""
    tokens = [token for token in split(text.rstrip(" ?.!")) if token.key != "the"]
    try:
        kind, args = match(text, tokens, job_kinds.patterns())
    except GuessError as error:
        if _reads(text):
            raise UsageError(OF_A_TRACE) from None
        raise error.suggesting(EXAMPLE) from None
    return Guess(text, reason, kind, Scope(), args, text)


parse_job_or_error = partial(_or_error, parse_job)


def _reads(text: str) -> bool:
    try:
        parse(text)
    except UsageError:
        return False
    return True


def check_job(found: JobDocument, guesses: Iterable[str | Guess | Verdict]) -> Verdicts:
    """Mark each prediction on the document of a job: hit, miss, unknown or error."""
    parsed = (parse_job_or_error(guess) if isinstance(guess, str) else guess for guess in guesses)
    return Verdicts(
        guess if isinstance(guess, Verdict) else _mark_job(guess, found) for guess in parsed
    )


def _mark_job(guess: Guess, job: JobDocument) -> Verdict:
    found = _measured(guess, lambda: JobQuery(guess.args, job))
    if isinstance(found, Verdict):
        return found
    measured = found[1]
    return _verdict(guess, measured, measured.why, measured.lines * (measured.verdict == "miss"))
