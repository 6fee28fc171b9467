"""What torch.compile did: graph breaks, recompilations, graphs, compile time.

The compiler's records beside the trace decide (`foretrace record --why`, `capture(why=True)`). They
cover the whole program, so that these predictions take no step or region. A graph break counts once
for its line. A trace alone shows versions of compiled regions that ran: `recompiles == 0` misses on
`Torch-Compiled Region: 0/1`, and is unknown where only `0/0` ran. `graphs` are those that Dynamo
made; per step, in a region, or where nothing is compiled they are launches of CUDA graphs, as
`cuda graphs` always are. The compile time without records is that of the run record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, comparison, counts
from foretrace.analyze.guess.windows import Unknown
from foretrace.analyze.guess.words import HEADS, Amount
from foretrace.base.units import count_text, time_text
from foretrace.model.intervals import IntervalUnion
from foretrace.model.trace import Trace
from foretrace.schema import compiled
from foretrace.schema.compiler import Compilation, CompilerRun

NO_RECORDS = (
    "the compiler's records are not beside the trace: record with `foretrace record --why`, "
    "`capture(why=True)` or, in a test, `kernel_trace(why=True)`"
)
WHOLE = "the compiler's records are of the whole program: leave out the place"
_LISTED = 3  # places in an answer; the evidence has the rest
_RESUMED = "torch_dynamo_resume_in_"  # how Dynamo names what follows a graph break
_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class CompilerFact:
    """A number between `low` and `high`; `places` say where and why, one for each counted."""

    low: float
    high: float
    places: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    missing: str = ""

    @property
    def shown(self) -> str:
        """`2 (model.py:41, model.py:63)`, `1 or more`."""
        more = f" and {len(self.places) - _LISTED} more" if len(self.places) > _LISTED else ""
        where = f" ({', '.join(self.places[:_LISTED])}{more})" if self.places else ""
        return f"{count_text(self.low)}{'' if self.high == self.low else ' or more'}{where}"

    @property
    def lines(self) -> tuple[str, ...]:
        """Each place with its reason."""
        pairs = zip(self.places, self.reasons, strict=True)
        return tuple(f"{place}  {reason}".rstrip() for place, reason in pairs)


def graph_breaks(trace: Trace) -> CompilerFact:
    """Lines at which Dynamo ended a graph; a line counts once, however often it was compiled."""
    run = trace.compiler_run
    if run is None:
        tails = (name.partition(_RESUMED)[2] for name in trace.host.names if _RESUMED in name)
        resumed = {"".join(takewhile(_in_word, tail)) for tail in tails}
        return CompilerFact(len(resumed), math.inf, missing=NO_RECORDS)
    found = {one.source: one.reason for each in mine(run, trace) for one in each.breaks}
    places = tuple(source.place for source in sorted(found))
    return _fact(run, trace, places, tuple(first_line(found[source]) for source in sorted(found)))


def recompiles(trace: Trace) -> CompilerFact:
    """How often code was compiled again."""
    run, versions = trace.compiler_run, _versions(trace)
    if run is None:
        latest: dict[int, int] = {}
        for frame, version in versions:
            latest[frame] = max(version, latest.get(frame, 0))
        return CompilerFact(sum(latest.values()), math.inf, missing=NO_RECORDS)
    again = [each for each in mine(run, trace) if is_again(each)]
    reasons = ("; ".join(guard.text for guard in each.recompile) for each in again)
    return _fact(run, trace, tuple(map(_name, again)), tuple(map(first_line, reasons)))


def graphs(trace: Trace) -> CompilerFact:
    """Graphs that Dynamo made: one for each version of each part of a function."""
    run = trace.compiler_run
    if run is None:
        return CompilerFact(len(_versions(trace)), math.inf, missing=NO_RECORDS)
    made = [each for each in mine(run, trace) if each.graphs]
    return _fact(run, trace, tuple(map(_name, made)), ("",) * len(made))


def _in_word(letter: str) -> bool:
    return letter == "_" or letter.isalnum()


def compile_ns(trace: Trace) -> CompilerFact:
    """What compiling took in all."""
    run = trace.compiler_run
    if run is not None:
        times = [each.compile_ns for each in mine(run, trace)]
        low = sum(ns for ns in times if ns is not None)
        missing = _missing(run, trace) or ("some times are missing" if None in times else "")
        return CompilerFact(low, math.inf if missing else low, missing=missing)
    if trace.run.compile.seconds is not None:
        recorded = trace.run.compile.seconds * _SECOND_NS
        return CompilerFact(recorded, recorded)
    host = trace.host
    during = np.flatnonzero(host.lasting & host.named(compiled.is_compilation))
    spent = IntervalUnion(host.start[during], host.end[during])
    return CompilerFact(int((spent.end - spent.start).sum()), math.inf, missing=NO_RECORDS)


def shown_time(fact: CompilerFact) -> str:
    """`1.4 s`, `at least 1.4 s`."""
    return f"{'' if fact.low == fact.high else 'at least '}{time_text(fact.low)}"


COUNTED: dict[str, Callable[[Trace], CompilerFact]] = {
    "graph-breaks": graph_breaks,
    "recompiles": recompiles,
    "compiled-graphs": graphs,
    "graphs": graphs,
}


def mine(run: CompilerRun, trace: Trace) -> Iterator[Compilation]:
    """The compilations of the trace's own rank, where a log has several."""
    ranks = {each.rank for each in run.compilations}
    own = trace.about.rank if trace.about.rank in ranks else None
    return (each for each in run.compilations if own is None or each.rank == own)


def is_again(compilation: Compilation) -> bool:
    """Whether this is a later version of its code: `0/1`, or one with guards that failed."""
    return bool(compilation.recompile) or _version(compilation) > 0


def first_line(text: str) -> str:
    """A reason in one line."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _fact(
    run: CompilerRun, trace: Trace, places: tuple[str, ...], reasons: tuple[str, ...]
) -> CompilerFact:
    missing = _missing(run, trace)
    high = math.inf if missing else len(places)
    return CompilerFact(len(places), high, places, reasons, missing)


def _missing(run: CompilerRun, trace: Trace) -> str:
    """Why the records may lack a compilation; empty when they have all that the trace shows."""
    if run.ledger.gap:
        return run.ledger.gap
    if run.ledger.skipped:
        return f"{count_text(run.ledger.skipped)} of the compiler's records cannot be read"
    logged = {"/".join(each.id.split("/")[-2:]) for each in mine(run, trace)}
    ran = {f"{frame}/{version}" for frame, version in _versions(trace)}
    absent = sorted(ran - logged)
    return f"the compiler's records do not have {', '.join(absent[:_LISTED])}" if absent else ""


def _versions(trace: Trace) -> set[tuple[int, int]]:
    """(frame, version) of the compiled regions that ran."""
    return {found for name in trace.host.names if (found := compiled.version(name))}


def _version(compilation: Compilation) -> int:
    text = compilation.id.rpartition("/")[2]
    return int(text) if text.isascii() and text.isdigit() else 0


def _name(compilation: Compilation) -> str:
    """`0/1 of model.py:41`."""
    source = compilation.function
    return f"{compilation.id} of {source.place}" if source else compilation.id


_COUNTED = "|".join(COUNTED)


def measure(query: Query) -> Measurement:
    """Judge `graph breaks == 0` or `compile time < 30 s`."""
    window, word = query.windows[0], query.args.get("graph-breaks", "")
    trace = window.evidence.trace
    compiled = window.evidence.is_compiled or trace.compiler_run is not None
    if word == "graphs" and not (window.whole and compiled):
        launched = {**query.args, "what": HEADS["cuda-graphs"]}
        return counts.KIND.measure(replace(query, args=launched))
    if not window.whole:
        raise Unknown(WHOLE)
    if word:
        fact = COUNTED[word](trace)
        return _judged(query, fact, query.number, fact.shown)
    fact = compile_ns(trace)
    return _judged(query, fact, query.args["amount"], shown_time(fact))


def _judged(query: Query, fact: CompilerFact, wanted: Amount, shown: str) -> Measurement:
    verdict = query.compare.verdict(fact.low, fact.high, wanted)
    said = {"unknown": fact.missing, "miss": next(iter(fact.reasons), "")}
    return Measurement(verdict, shown, said.get(verdict, ""), query.windows[0], lines=fact.lines)


KIND = GuessKind(
    "compiler",
    9,
    (
        f"{_COUNTED} {{compare:compare}} {{number:count}}",
        f"[uses|use|has|have] [{{compare:phrase}}] {{number:count}} {_COUNTED}",
        f"[uses|use|has|have] no {_COUNTED}",
        "compile-time {compare:compare} {amount:time}",
    ),
    measure,
    expected=lambda args: comparison(args) or "== 0",
    records=True,
)
