"""Marks predictions: on a trace, on a snapshot of the allocator, on a job of many ranks.

A kind of prediction declares known reasons why a sensible prediction misses; other packages add
theirs.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TypeVar

from foretrace.base import plugins
from foretrace.base.budget import Limits
from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.base.units import percent_text, time_text
from foretrace.check import kinds
from foretrace.check.documents import CheckDocument, MarkedGuess
from foretrace.check.evidence import Evidence
from foretrace.check.job_kinds import JobQuery
from foretrace.check.kinds import NO_OTHER, GuessKind, Measurement, Miss, Query, Reason
from foretrace.check.lexicon import listed
from foretrace.check.parsing import Guess, heard, parse, parse_job_or_error, parse_or_error, parsed
from foretrace.check.selection import Measure, as_shown, certain, wider_reading
from foretrace.check.suggesting import in_trace, shorter
from foretrace.check.verdict import Verdict, Verdicts
from foretrace.check.windows import Differs, NoSuchPlace, Scope, Unknown, windows_of
from foretrace.check.words import GuessError, Selector, language
from foretrace.jobs.documents import JobDocument
from foretrace.read.door import SnapshotFile, one_trace, open_any
from foretrace.trace.allocator.view import MemoryView, view_of
from foretrace.trace.opening import open_file, opened
from foretrace.trace.trace import Trace


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


def _advised(verdict: Verdict, evidence: Evidence, other: Evidence | None) -> Verdict:
    """The verdict on a text that names something of this trace (`multi_tensor_apply`); else a
    sentence that fits it.
    """
    try:
        meant = parse(verdict.text, verdict.reason, evidence)
        if all(_names_one(part, evidence) for part in meant.parts if part.kind.name == "top"):
            return mark(meant, evidence, other)
        parse(verdict.text)
    except GuessError as error:
        unmeasured = _unmeasured(verdict.text, verdict.reason)
        if unmeasured and not (evidence.has_modules and _LAYERS in str(unmeasured.args["why"])):
            return mark(unmeasured, evidence)
        if meant_so := _without_words(error, evidence, other):
            return replace(verdict, why=verdict.why.replace(error.advice, meant_so))
        example = in_trace(error, evidence, lambda text: parsed(text) is not None)
        if not error.nearest and mark(parse(example), evidence).verdict in ("error", "unknown"):
            bare = f"; write for example `{error.example}`"
            return replace(verdict, why=verdict.why.replace(bare, "") + _facts(error, evidence))
        fitting = error.suggesting(example)
        why = verdict.why.replace(error.advice, fitting.advice)
        return replace(verdict, why=why + ("" if error.nearest else _facts(error, evidence)))
    except UsageError:
        pass
    return verdict


def _names_one(part: Guess, evidence: Evidence) -> bool:
    """Whether it speaks of one kernel: of several names none is the top one."""
    if "*" not in part.text:
        return True
    named = part.args.get("trait")
    within = named.name.strip("*") if isinstance(named, Selector) else ""
    kernels = {one.name for one in evidence.operations if one.kind == "kernel"}
    return sum(within in name for name in kernels) == 1


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
    empty = listed("claiming") | listed("everyday") | listed("empty_nouns")
    edges = {words[0].lower(), words[-1].lower()}
    guess = None if edges & empty else parsed(f"at least 1 {' '.join(words)}")
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
    if selector.word and not found.sure:  # `transposes` may mean kernels of another name
        return ""
    spent = int(evidence.trace.gpu.length[found.sure].sum()) if found.on_gpu and found.sure else 0
    share = f" ({time_text(spent)}, {percent_text(spent / whole)} of GPU time)" if spent else ""
    return f"`{selector.text}`: {len(found.sure):,}{share}"


_TRIED = 60  # texts with words left out: each takes up to 10 ms


def _without_words(error: GuessError, evidence: Evidence, other: Evidence | None) -> str:
    """What the text would say without a few words, and the verdict on that; else nothing."""
    slip = error.text[: error.at] + error.nearest + error.text[error.at + len(error.word) :]
    if error.nearest and parsed(slip):
        return ""
    for guess in filter(None, map(parsed, islice(shorter(error.text), _TRIED))):
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


def _unmeasured(text: str, reason: str) -> Guess | None:
    """A prediction about what no trace has: unknown, and why."""
    text_of, text = text, _NO_LAYERS.sub("", text.lower())
    words = {*re.findall(r"[\w/-]+", text)}
    words |= {*re.findall(r"(?=\b(\w+-\w+))", re.sub(r"(?<=\w) (?=\w)", "-", text))}
    for line in language("unmeasured").strip().splitlines():
        said, _, why = line.partition(" | ")
        if words & {*said.split()}:
            return Guess(text_of, reason, _UNMEASURED, Scope(), {"why": why}, text_of)
    return None


def _unknown(query: Query) -> Measurement:
    raise Unknown(str(query.args["why"]))


# kinds of kernels, by names with `layer` in them
_NO_LAYERS = regex(
    r"\b(?:norm|linear|dense|conv\w*|fc|connected)[ _-]?layers?\b|\blayer[ _-]?norms?\b"
)
_LAYERS = "does not mark layers"  # false of a trace that has modules
_UNMEASURED = GuessKind("unmeasured", 99, (), _unknown)


OF_A_SNAPSHOT = "a snapshot of the allocator has memory alone: check this on the trace"
Guesses = str | Guess | Verdict | Iterable[str | Guess | Verdict]


def check(
    trace: Trace | str | os.PathLike[str],
    guesses: Guesses,
    against: Trace | str | os.PathLike[str] | None = None,
) -> Verdicts:
    """Mark each prediction on `trace`: hit, miss, unknown or error, with what was measured.

    A trace may be a path or the name of a recording; `against` is the one that predictions call
    `A`. Missing data is unknown, never a hit. A text that cannot be parsed, or a region that is not
    in the trace, is an error and stops no other. A snapshot of the allocator is marked as well.
    """
    if not isinstance(trace, Trace):
        found = open_any(trace)
        if isinstance(found, SnapshotFile):
            return check_snapshot(view_of(found.path), guesses)
        trace = open_file(one_trace(found), Limits(), cache=True)
    evidence = Evidence(trace)
    other = Evidence(opened(against)) if against is not None else None
    return _each(
        guesses,
        parse_or_error,
        lambda guess: _placed(guess, mark(guess, evidence, other), evidence, other),
        lambda wrong: _advised(wrong, evidence, other),
    )


def check_snapshot(view: MemoryView, guesses: Guesses) -> Verdicts:
    """Mark each prediction on a snapshot of the allocator, which has memory and no events."""
    return _each(guesses, parse_or_error, lambda guess: _held(guess, view))


def check_job(found: JobDocument, guesses: Guesses) -> Verdicts:
    """Mark each prediction on the document of a job: hit, miss, unknown or error."""
    return _each(guesses, parse_job_or_error, lambda guess: _mark_job(guess, found))


def _each(
    guesses: Guesses,
    read: Callable[[str], Guess | Verdict],
    judge: Callable[[Guess], Verdict],
    advise: Callable[[Verdict], Verdict] = lambda wrong: wrong,
) -> Verdicts:
    """The verdict on each; one that cannot be parsed has its own."""
    listed = [guesses] if isinstance(guesses, str | Guess | Verdict) else list(guesses)
    found = [read(guess) if isinstance(guess, str) else guess for guess in listed]
    return Verdicts(advise(one) if isinstance(one, Verdict) else judge(one) for one in found)


def _placed(guess: Guess, found: Verdict, evidence: Evidence, other: Evidence | None) -> Verdict:
    """The verdict, or that of free words where a word is no place: `per kernel`."""
    if any(part.narrowed for part in guess.parts):  # `Cijk kernels` are a name of this trace
        named = heard(guess.text, guess.reason, evidence)
        known = named and not any(part.narrowed for part in named.parts)
        return mark(named, evidence, other) if named and known else found
    if found.verdict != "error" or guess.parts or guess.scope.kind != "region":
        return found
    free = heard(guess.text, guess.reason, evidence) or _unmeasured(guess.text, guess.reason)
    again = mark(free, evidence, other) if free else found
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


_OF_ALL = ("counts", "presence")


def _narrowed(guess: Guess, found: Verdict) -> Verdict:
    """What holds when `paged` is not known: no part of attention is more than all of it."""
    symbol = getattr(guess.args.get("compare"), "symbol", "")
    kind, denied = guess.kind.name, {"no", "not"} & set(guess.args)
    less = (symbol in ("<", "<=") or (kind in _OF_ALL and denied)) and found.verdict == "hit"
    more = (symbol in (">", ">=") or kind in ("presence", "top")) and found.verdict == "miss"
    decided = kind in ("ratios", "top", *_OF_ALL) and (less or (more and not denied))
    if guess.parts or (not decided and found.verdict in ("hit", "miss")):
        why = f"`{guess.narrowed}` is not known here; this is what all of it measures"
        return replace(found, verdict="unknown", why=why)
    return found


def _with_helpers(guess: Guess, query: Query | None, found: Measurement) -> Measurement:
    """`convolutions` take what their ops launch, helpers and matmuls too; so do matmuls that are
    split; attention may be its main kernels alone, `copies` memcpys alone; ATen calls a copy
    `elementwise` too. Of two parts that are compared, each may be its group of the first screen,
    backward too. Unknown where the other reading has another verdict.
    """
    if query is None or guess.kind.name not in ("ratios", "time", "top"):
        return found
    wider = {name: wider_reading(value) for name, value in query.args.items()}
    parts = {name: each for name, each in wider.items() if isinstance(each, Measure)}
    if sum(each.selector is not None for each in parts.values()) == 2:
        wider |= {name: as_shown(each) for name, each in parts.items()}
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
        if guess.any_of and "hit" in verdicts:
            found = [found[verdicts.index("hit")]]
        same = len({one.verdict for one in found}) == 1
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
    if guess.left_out:
        why = " ".join(filter(None, (f"`{guess.left_out}` is not judged", why)))
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


Asked = TypeVar("Asked", Query, JobQuery)


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


# that it speaks of a GPU, of its time, of a total, of a step
_SAYS = (
    regex("gpu|cuda|kernel"),
    regex(r"\b(gpu|kernel|device) time|\bon (the )?(gpu|device)\b"),
    regex(r"\b(total|overall|altogether|in sum|in all)\b"),
    regex(r"\bof (the |each |every )?(step|iteration)\b"),
)


def _query(guess: Guess, evidence: Evidence, other: Evidence | None) -> Query:
    windows = windows_of(guess.scope, evidence)
    if other is None:
        says = [pattern.search(guess.text.lower()) is not None for pattern in _SAYS]
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


def _held(guess: Guess, view: MemoryView) -> Verdict:
    held = None if guess.parts or guess.scope.kind != "trace" else guess.kind.held
    if held is None:
        return _verdict(guess, Measurement("unknown", ""), OF_A_SNAPSHOT)
    try:
        found = held(Query(guess.args, guess.scope, []), view)
    except Unknown as missing:
        return _verdict(guess, Measurement("unknown", ""), str(missing))
    return _verdict(guess, found, found.why)


def _mark_job(guess: Guess, job: JobDocument) -> Verdict:
    found = _measured(guess, lambda: JobQuery(guess.args, job))
    if isinstance(found, Verdict):
        return found
    measured = found[1]
    return _verdict(guess, measured, measured.why, measured.lines * (measured.verdict == "miss"))
