"""What the compiler's records beside a trace say of the whole program."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from foretrace.base.patterns import regex
from foretrace.base.units import count_text
from foretrace.read.compiler import records as compiled
from foretrace.read.compiler.records import Compilation, CompilerRun
from foretrace.trace.intervals import IntervalUnion
from foretrace.trace.trace import Trace

NO_RECORDS = (
    "the compiler's records are not beside the trace: record with `foretrace record --why`, "
    "`capture(why=True)` or, in a test, `kernel_trace(why=True)`"
)
_LISTED = 3  # places in an answer; the evidence has the rest
_RESUMED = regex(r"torch_dynamo_resume_in_(\w*)")  # how Dynamo names what follows a graph break


@dataclass(frozen=True, slots=True)
class CompilerFact:
    """A number between `low` and `high`; `places` say where and why, one for each counted."""

    low: float
    high: float
    places: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    missing: str = ""


def graph_breaks(trace: Trace) -> CompilerFact:
    """Lines at which Dynamo ended a graph; a line counts once, however often it was compiled."""
    run = trace.compiler_run
    if run is None:
        resumed = {at[1] for name in trace.host.names if (at := _RESUMED.search(name))}
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
    again = [each for each in mine(run, trace) if _is_again(each)]
    reasons = ("; ".join(guard.text for guard in each.recompile) for each in again)
    return _fact(run, trace, tuple(map(_name, again)), tuple(map(first_line, reasons)))


def graphs(trace: Trace) -> CompilerFact:
    """Graphs that Dynamo made: one for each version of each part of a function."""
    run = trace.compiler_run
    if run is None:
        return CompilerFact(len(_versions(trace)), math.inf, missing=NO_RECORDS)
    made = [each for each in mine(run, trace) if each.graphs]
    return _fact(run, trace, tuple(map(_name, made)), ("",) * len(made))


def compile_ns(trace: Trace) -> CompilerFact:
    """What compiling took in all."""
    run = trace.compiler_run
    if run is not None:
        times = [each.compile_ns for each in mine(run, trace)]
        low = sum(ns for ns in times if ns is not None)
        missing = _missing(run, trace) or ("some times are missing" if None in times else "")
        return CompilerFact(low, math.inf if missing else low, missing=missing)
    if trace.run.compile.seconds is not None:
        recorded = trace.run.compile.seconds * 10**9
        return CompilerFact(recorded, recorded)
    host = trace.host
    during = np.flatnonzero(host.lasting & host.named(compiled.is_compilation))
    spent = IntervalUnion(host.start[during], host.end[during])
    return CompilerFact(int((spent.end - spent.start).sum()), math.inf, missing=NO_RECORDS)


def mine(run: CompilerRun, trace: Trace) -> Iterator[Compilation]:
    """The compilations of the trace's own rank, where a log has several."""
    ranks = {each.rank for each in run.compilations}
    own = trace.about.rank if trace.about.rank in ranks else None
    return (each for each in run.compilations if own is None or each.rank == own)


def _is_again(compilation: Compilation) -> bool:
    """Whether this is a later version of its code: `0/1`, or one with guards that failed."""
    text = compilation.id.rpartition("/")[2]
    version = int(text) if text.isascii() and text.isdigit() else 0
    return bool(compilation.recompile) or version > 0


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


def _name(compilation: Compilation) -> str:
    """`0/1 of model.py:41`."""
    source = compilation.function
    return f"{compilation.id} of {source.place}" if source else compilation.id
