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
from functools import cache, lru_cache, partial
from itertools import islice
from typing import TypeVar

from foretrace.analyze.guess import job_kinds, kinds
from foretrace.analyze.guess.clauses import SpokenClaim, spoken
from foretrace.analyze.guess.evidence import Evidence
from foretrace.analyze.guess.grammar import match, phrase_table, replaced
from foretrace.analyze.guess.job_kinds import JobQuery
from foretrace.analyze.guess.kinds import NO_OTHER, GuessKind, Measurement, Miss, Query, Reason
from foretrace.analyze.guess.reading import ClaimReader, Named
from foretrace.analyze.guess.selection import Measure, certain, wider_reading
from foretrace.analyze.guess.suggesting import in_trace, shorter, suggestion
from foretrace.analyze.guess.trace_nouns import of_trace
from foretrace.analyze.guess.windows import (
    Differs,
    NoSuchPlace,
    Scope,
    Unknown,
    split_scope,
    windows_of,
)
from foretrace.analyze.guess.words import (
    GuessError,
    ParseFailure,
    Selector,
    Token,
    language,
    read_selector,
    split,
    wrong,
)
from foretrace.base import plugins
from foretrace.base.errors import UsageError
from foretrace.base.units import percent_text, time_text
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

_COUNTED = (["total", "number", "of"], ["number", "of"], ["num"])  # before what is counted


@cache
def _synonyms() -> dict[Words, Words]:
    return phrase_table([language("plain")])


@cache
def _frames() -> dict[Words, Words]:
    return phrase_table([language("around"), language("plain")])


def _plain_words(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens in the words of the language: no article, no question."""
    left = [token for token in tokens if token.key != "the"]
    asked = len(left) > 1 and left[0].key in ("does", "do", "will")
    first = replaced(text, left[asked:], _frames())
    keys = [token.key for token in first[:3]]
    counted = next((len(words) for words in _COUNTED if keys[: len(words)] == words), 0)
    if len(first) > 2 and first[0].key in ("is", "are"):  # are gelu and mul fused?
        first = [*first[1:-1], first[0], first[-1]]
    return replaced(text, first[counted:], _frames())


def _advised(verdict: Verdict, evidence: Evidence, other: Evidence | None) -> Verdict:
    """The verdict on a text that names something of this trace (`multi_tensor_apply`); else a
    sentence that fits it.
    """
    try:
        meant = parse(verdict.text, verdict.reason, evidence)
        if not any(part.kind.name == "top" and "*" in part.text for part in meant.parts):
            return mark(meant, evidence, other)  # of several names none is the top one
        parse(verdict.text)
    except GuessError as error:
        unmeasured = _unmeasured(verdict.text, verdict.reason)
        if unmeasured and not (evidence.has_modules and _LAYERS in str(unmeasured.args["why"])):
            return mark(unmeasured, evidence)
        if meant_so := _without_words(error, evidence, other):
            return replace(verdict, why=verdict.why.replace(error.advice, meant_so))
        example = in_trace(error, evidence, _reads)
        if not error.nearest and mark(parse(example), evidence).verdict in ("error", "unknown"):
            bare = f"; write for example `{error.example}`"
            return replace(verdict, why=verdict.why.replace(bare, "") + _facts(error, evidence))
        fitting = error.suggesting(example)
        why = verdict.why.replace(error.advice, fitting.advice)
        return replace(verdict, why=why + ("" if error.nearest else _facts(error, evidence)))
    except UsageError:
        pass
    return verdict


_FACTS, _NOUN = 3, 3  # nouns of a refused text that are counted, and the words of one


def _facts(error: GuessError, evidence: Evidence) -> str:
    """What the whole trace has of the nouns in a text that cannot be read."""
    words, at, facts = [word.strip(",.;:!?") for word in error.text.split()], 0, dict[str, None]()
    while at < len(words) and len(facts) < _FACTS:
        sizes = range(min(_NOUN, len(words) - at), 0, -1)
        found = ((size, _fact(words[at : at + size], evidence)) for size in sizes)
        size, fact = next((each for each in found if each[1]), (1, ""))
        facts |= {fact: None} if fact else {}
        at += size
    return f". In the whole trace, {', '.join(facts)}" if facts else ""


def _fact(words: list[str], evidence: Evidence) -> str:
    """How often a trace has a noun, and its time; empty where it is no noun, or is uncertain."""
    empty = f"{language('claiming')} {language('everyday')} {language('empty_nouns')}".split()
    edges = {words[0].lower(), words[-1].lower()}
    guess = None if edges & {*empty} else _parsed(f"at least 1 {' '.join(words)}")
    selector = guess.args.get("what") if guess else None
    if not isinstance(selector, Selector) or selector.text in empty:
        return ""
    if selector.on_gpu and evidence.runs_on_cpu:
        return ""
    try:
        [window] = windows_of(Scope(), evidence)
        found, whole = certain(window, selector), Measure("", "gpu time").of(window)
    except (Differs, Unknown):
        return ""
    spent = int(evidence.trace.gpu.length[found.sure].sum()) if found.on_gpu and found.sure else 0
    share = f" ({time_text(spent)}, {percent_text(spent / whole)} of GPU time)" if spent else ""
    return f"`{selector.text}`: {len(found.sure):,}{share}"


_TRIED = 60  # texts with words left out: each takes up to 10 ms


def _without_words(error: GuessError, evidence: Evidence, other: Evidence | None) -> str:
    """What the text would say without a few words, and the verdict on that; else nothing."""
    slip = error.text[: error.at] + error.nearest + error.text[error.at + len(error.word) :]
    if error.nearest and _reads(slip):
        return ""
    for guess in filter(None, map(_parsed, islice(shorter(error.text), _TRIED))):
        found = mark(guess, evidence, other)
        if found.verdict != "error":  # with fewer words still it would say something else
            decided = found.verdict in ("hit", "miss")
            return f"{error.problem}; did you mean {_told(guess, found)}" if decided else ""
    return ""


def _told(guess: Guess, found: Verdict) -> str:
    """A reading that nobody wrote so, and its verdict."""
    said = guess.expected if guess.by_slots and "||" not in guess.expected else guess.text
    more = f", measured {found.measured}" if "`" not in found.measured and found.measured else ""
    return f"`{said}`? That is a {found.verdict}{more}"


Asked = TypeVar("Asked", Query, JobQuery)


@dataclass(frozen=True, slots=True)
class Guess:
    """One prediction: its text, why its author expects it, and what was parsed from it.

    `parts` are its claims, of which all must hold, or with `agree` its readings, which must have
    one verdict. With `denied` the opposite of them holds. `unread` is what was not understood.
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
    denied: bool = False
    unread: str = ""
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
        left = self.args.get("left")
        named = self.args.get("what", self.args.get("trait"))
        selector = left.selector if isinstance(left, Measure) else named
        words = selector.text if isinstance(selector, Selector) else ""
        gpu = "gpu idle" if "idle" in self.args else "gpu busy" if "busy" in self.args else "gpu"
        return words or (gpu if self.kind.name == "bounds" else "")


def parse(text: str, reason: str = "", evidence: Evidence | None = None) -> Guess:
    """Parse one prediction; `GuessError` (a `UsageError`) points at the wrong word.

    With `evidence`, names of that trace are nouns as well.
    """
    try:
        return _parse(text, reason)
    except GuessError:
        found = _heard(text, reason, of_trace(evidence, _noun) if evidence else _reader())
        if found is None:
            raise
    modular = any('module "' in part.text for part in found.parts)
    if evidence and modular:  # `MLP is slower than attention`: the other one is a module too
        found = _heard(text, reason, of_trace(evidence, _noun, modules_first=True)) or found
    return found


def _heard(text: str, reason: str, reader: ClaimReader) -> Guess | None:
    """A prediction in free words; None where it is not understood."""
    found = spoken(text, _readable, reader, _spoken_of, _deniable)
    if found is None:
        return None
    claims = [_claimed(claim) for claim in found.claims]
    unread = "; ".join(found.unread)
    by_slots = any(claim.by_slots for claim in found.claims)
    whole = replace(_joined(text, claims), text=text, reason=reason, parts=tuple(claims))
    plain = replace(whole, agree=False, denied=False, narrowed="")
    return replace(plain, unread=unread, by_slots=by_slots)


def _spoken_of(guess: Guess) -> tuple[str, str]:
    """What a claim speaks of, and where."""
    return guess.subject, guess.scope.text


def _unmeasured(text: str, reason: str) -> Guess | None:
    """A prediction about what no trace has: unknown, and why."""
    words = {*re.findall(r"[\w/-]+", text.lower())}
    words |= {*re.findall(r"(?=\b(\w+-\w+))", re.sub(r"(?<=\w) (?=\w)", "-", text.lower()))}
    for line in language("unmeasured").strip().splitlines():
        said, _, why = line.partition(" | ")
        if words & {*said.split()}:
            return Guess(text, reason, _UNMEASURED, Scope(), {"why": why}, text)
    return None


def _unknown(query: Query) -> Measurement:
    raise Unknown(str(query.args["why"]))


_LAYERS = "does not mark layers"  # false of a trace that has modules
_UNMEASURED = GuessKind("unmeasured", 99, (), _unknown)


def _claimed(claim: SpokenClaim) -> Guess:
    found = _joined(claim.said, list(claim.readings), agree=True)
    parts = found.parts or (found,)
    said = f"not: {claim.said}"
    if claim.denied:
        found = replace(found, text=said, parts=parts, denied=True)
    return replace(found, narrowed=claim.narrowed)


# kinds of one measured figure or fact, of which `not` says the opposite
_DENIABLE = ("ratios", "time", "top", "bounds", "overlap", "own_streams", "presence", "memory")


def _deniable(guess: Guess) -> bool:
    one = not {"quantifier", "each", "not", "no"} & set(guess.args)
    return one and guess.scope.kind == "trace" and guess.kind.name in _DENIABLE


def _joined(text: str, parts: list[Guess], *, agree: bool = False) -> Guess:
    if len(parts) == 1:
        return parts[0]
    return replace(parts[0], text=text, parts=tuple(parts), agree=agree)


def _readable(text: str, by_slots: bool) -> Guess | None:
    """The prediction of a part; none of an op that is rather an everyday word (`all in bf16`),
    unless the slots of a sentence have it as a noun.
    """
    try:
        found = _parse(text)
    except UsageError:
        return None
    unplaced = found.scope.kind == "region" and found.scope.name.lower() in _NO_PLACES
    everyday = not by_slots and found.subject in language("everyday").split()
    return None if unplaced or everyday else found


_NO_PLACES = ("layer", "layers", "kernel", "call", "token", "head", "block", "launch", "sample")


@lru_cache(maxsize=4096)
def _noun(text: str) -> Named | None:
    """The selector that a text is, as a whole."""
    try:
        tokens = split(text)
        for _ in range(2):  # for phrases of phrases
            tokens = replaced(text, tokens, _synonyms())
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
    try:
        scope, words = split_scope(text, tokens)
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
    """Mark each prediction on `trace`; see `of_snapshots.check`."""
    listed = [guesses] if isinstance(guesses, str | Guess | Verdict) else list(guesses)
    parsed = [parse_or_error(guess) if isinstance(guess, str) else guess for guess in listed]
    evidence = Evidence(opened(trace))
    other = Evidence(opened(against)) if against is not None else None
    return Verdicts(
        _advised(guess, evidence, other)
        if isinstance(guess, Verdict)
        else _placed(guess, mark(guess, evidence, other), evidence, other)
        for guess in parsed
    )


def _placed(guess: Guess, found: Verdict, evidence: Evidence, other: Evidence | None) -> Verdict:
    """The verdict, or that of free words where a word is no place: `per kernel`."""
    if found.verdict != "error" or guess.parts or guess.scope.kind != "region":
        return found
    heard = _heard(guess.text, guess.reason, of_trace(evidence, _noun))
    heard = heard or _unmeasured(guess.text, guess.reason)
    again = mark(heard, evidence, other) if heard else found
    return found if again.verdict == "error" else again


def mark(guess: Guess, evidence: Evidence, other: Evidence | None = None) -> Verdict:
    """Mark one prediction."""
    if guess.narrowed:
        return _narrowed(guess, mark(replace(guess, narrowed=""), evidence, other))
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


def _narrowed(guess: Guess, found: Verdict) -> Verdict:
    """What holds when `paged` is not known: no part of attention is more than all of it."""
    symbol = getattr(guess.args.get("compare"), "symbol", "")
    none = guess.kind.name in ("counts", "presence") and {"no", "not"} & set(guess.args)
    less = (symbol in ("<", "<=") or none) and found.verdict == "hit"
    more = (symbol in (">", ">=") or guess.kind.name == "presence") and found.verdict == "miss"
    decided = guess.kind.name in ("ratios", "counts", "presence") and (less or (more and not none))
    if guess.parts or (not decided and found.verdict in ("hit", "miss")):
        why = f"`{guess.narrowed}` is not known here; this is what all of it measures"
        return replace(found, verdict="unknown", why=why)
    return found


def _with_helpers(guess: Guess, query: Query | None, found: Measurement) -> Measurement:
    """`convolutions` take what their ops launch, helpers and matmuls too; so do matmuls that are
    split; attention may be its main kernels alone, `copies` memcpys alone; ATen calls a copy
    `elementwise` too. Unknown where the other reading has another verdict.
    """
    if query is None or guess.kind.name not in ("ratios", "time", "top"):
        return found
    wider = {name: wider_reading(value) for name, value in query.args.items()}
    if wider == query.args:
        return found
    try:
        other = guess.kind.measure(replace(query, args=wider))
    except Differs as problem:
        return replace(found, verdict="unknown", why=str(problem))
    except Unknown:
        return found
    if other.verdict == found.verdict or other.measured.startswith("0%: no "):
        return found
    if found.measured.startswith("0%: no "):  # `copies` that are memcpys alone
        return other
    measured = f"{found.measured}; in the other reading: {other.measured}"
    return replace(found, verdict="unknown", measured=measured, why=_SEVERAL)


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
        open_part = _unmeasured(guess.unread, "")
        why = str(open_part.args["why"]) if open_part else f"`{guess.unread}` is not understood"
        worst = replace(worst, verdict="unknown" if open_part else "error")
    why = " ".join(filter(None, (why, worst.why if why != worst.why and several else "")))
    if guess.by_slots and worst.verdict != "error":
        why = ". ".join(filter(None, (f"read as: {guess.expected}", why)))
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
        total = re.search(r"\b(total|overall|altogether|in sum|in all)\b", said) is not None
        timed = re.search(r"\b(gpu|kernel|device) time|\bon (the )?(gpu|device)\b", said)
        step = re.search(r"\bof (the |each |every )?(step|iteration)\b", said) is not None
        says = (says_gpu, timed is not None, total, step)
        return Query(guess.args, guess.scope, windows, None, NO_OTHER, *says)
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


def _parsed(text: str) -> Guess | None:
    try:
        return parse(text)
    except UsageError:
        return None


def _reads(text: str) -> bool:
    return _parsed(text) is not None


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
