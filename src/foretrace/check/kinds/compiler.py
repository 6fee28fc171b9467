"""What the compiler's records beside a trace say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foretrace.base.patterns import regex
from foretrace.base.units import count_text, time_text
from foretrace.check.evidence import launch_ops
from foretrace.check.grammar import Slot, one_phrase, phrases
from foretrace.check.kinds import (
    Measurement,
    Query,
    comparison,
    from_selection,
    judge_all,
    per_window,
    prediction,
)
from foretrace.check.kinds.counts import counted
from foretrace.check.kinds.fusion import op_of
from foretrace.check.selection import Selection, label, select
from foretrace.check.windows import Unknown, Window, some_of
from foretrace.check.words import HEADS, Amount, ParseFailure, Selector, Token, text_at
from foretrace.read.compiler import records as compiled
from foretrace.read.compiler.records import Compilation, CompiledLaunch, CompilerRun
from foretrace.trace.compiled.provenance import comes_from, line_ops
from foretrace.trace.cpu_ops import bare
from foretrace.trace.intervals import IntervalUnion
from foretrace.trace.trace import Trace
from foretrace.why.not_fused import REASONS, Separation, across_breaks, not_fused

NO_RECORDS = (
    "the compiler's records are not beside the trace: record with `foretrace record --why`, "
    "`capture(why=True)` or, in a test, `kernel_trace(why=True)`"
)
WHOLE = "the compiler's records are of the whole program: leave out the place"
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

    @property
    def shown(self) -> str:
        """`2 (model.py:41, model.py:63)`, `1 or more`."""
        where = f" ({some_of(self.places, _LISTED)})" if self.places else ""
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


_COUNTED = "|".join(COUNTED)


def _judged(query: Query, fact: CompilerFact, wanted: Amount, shown: str) -> Measurement:
    verdict = query.compare.verdict(fact.low, fact.high, wanted)
    said = {"unknown": fact.missing, "miss": next(iter(fact.reasons), "")}
    return Measurement(verdict, shown, said.get(verdict, ""), query.windows[0], lines=fact.lines)


@prediction(
    "compiler",
    9,
    f"{_COUNTED} {{compare:compare}} {{number:count}}",
    f"[uses|use|has|have] [{{compare:phrase}}] {{number:count}} {_COUNTED}",
    f"[uses|use|has|have] no {_COUNTED}",
    "compile-time {compare:compare} {amount:time}",
    expected=lambda args: comparison(args) or "== 0",
    records=True,
)
def _compiled(query: Query) -> Measurement:
    """What torch.compile did: graph breaks, recompilations, graphs, compile time.

    The compiler's records beside the trace decide (`foretrace record --why`, `capture(why=True)`).
    They cover the whole program, so that these predictions take no step or region. A graph break
    counts once for its line. A trace alone shows versions of compiled regions that ran: `recompiles
    == 0` misses on `Torch-Compiled Region: 0/1`, and is unknown where only `0/0` ran. `graphs` are
    those that Dynamo made; per step, in a region, or where nothing is compiled they are launches of
    CUDA graphs, as `cuda graphs` always are. The compile time without records is that of the run
    record.
    """
    window, word = query.windows[0], query.args.get("graph-breaks", "")
    trace = window.evidence.trace
    compiled = window.evidence.is_compiled or trace.compiler_run is not None
    if word == "graphs" and not (window.whole and compiled):
        launched = {**query.args, "what": HEADS["cuda-graphs"]}
        return counted.measure(replace(query, args=launched))
    if not window.whole:
        raise Unknown(WHOLE)
    if word:
        fact = COUNTED[word](trace)
        return _judged(query, fact, query.number, fact.shown)
    fact = compile_ns(trace)
    shown = f"{'' if fact.low == fact.high else 'at least '}{time_text(fact.low)}"
    return _judged(query, fact, query.args["amount"], shown)


CodeLine = tuple[str, int | None]  # a line of a Python file, or the whole file


def _count(window: Window, query: Query) -> Measurement:
    found = select(window, _selector(window, query.what))
    here, maybe = _divided(window, found, found.sure, query.args["line"])
    high = math.inf if found.lost or found.gap else len(here) + len(maybe) + len(found.maybe)
    verdict = query.compare.verdict(len(here), high, query.number)
    most = " or more" if math.isinf(high) else f" to {count_text(high)}"
    measured = count_text(len(here)) + ("" if len(here) == high else most)
    names = some_of(dict.fromkeys(label(window, found, item) for item in here), _LISTED)
    measured += f" ({names})" if names else ""
    lacking = "eager code launched some kernels, whose line is not recorded"
    unclear = found.lost or found.gap or found.maybe
    said = found.why(query.what) if unclear else lacking
    return from_selection(
        found, verdict, measured, said if verdict == "unknown" else "", here or found.sure
    )


def _every(window: Window, query: Query) -> Measurement:
    found = select(window, _selector(window, query.what))
    here, maybe = _divided(window, found, found.sure, query.args["line"])
    answers = [True if item in here else None if item in maybe else False for item in found.sure]
    verdict = judge_all(query.args["quantifier"], answers, found.unclear)
    measured = f"{count_text(len(here))} of {count_text(len(found.sure))}"
    lacking = "eager code launched some, whose line is not recorded" if found.sure else "none ran"
    wrong = [item for item in found.sure if item not in here]
    said = lacking if verdict == "unknown" else ""
    return from_selection(found, verdict, measured, said, wrong or here)


def _selector(window: Window, what: Selector) -> Selector:
    """On a CPU `kernels` are the ops that compute."""
    plain = replace(what, text="") == Selector("", "kernel")
    return Selector("cpu kernels", "cpu") if plain and window.evidence.runs_on_cpu else what


def _divided(
    window: Window, found: Selection, items: list[int], line: CodeLine
) -> tuple[list[int], list[int]]:
    """Those that come from the line, and those that may."""
    trace = window.evidence.trace
    run = trace.compiler_run
    ops = line_ops(run, *line) if run else frozenset()
    here, maybe = [], []
    for item in items:
        launch = trace.compiled.get(int(trace.gpu.id[item]) if found.on_gpu else item)
        if launch is not None and launch.lines:
            here += [item] if comes_from(launch, *line) else []
        elif not ops or ops & _caller(window, found, item):
            maybe.append(item)
    return here, maybe


def _caller(window: Window, found: Selection, item: int) -> frozenset[str]:
    """Every op around a kernel, in bare words."""
    origins = window.evidence.trace.origins
    event = int(origins.op[item]) if found.on_gpu else item
    chain = origins.host.op_chain(event) if event >= 0 else ()
    return frozenset(word for op in chain for word in (bare(op), bare(op).strip("_")))


_LINE = regex(r"(\S+\.py)(?::(\d{1,9}))?")


def _line(tokens: Sequence[Token], place: int) -> tuple[CodeLine, int]:
    found = _LINE.fullmatch(text_at(tokens, place))
    if found is None:
        raise ParseFailure(place, ["a line such as model.py:41"])
    return (found[1], int(found[2]) if found[2] else None), place + 1


@prediction(
    "source_lines",
    8,
    "{what:selector} from {line:line} {compare:compare} {number:count}",
    "[uses|use] [{compare:phrase}] {number:count} {what:selector} from {line:line}",
    "[uses|use] no {what:selector} from {line:line}",
    "{quantifier:quantifier} {what:selector} comes|come from {line:line}",
    expected=lambda args: comparison(args) or ("" if "quantifier" in args else "== 0"),
    records=True,
    slots={"line": Slot("a line of Python such as model.py:41, or a file such as model.py", _line)},
)
def _from_line(query: Query) -> Measurement:
    """How many kernels come from a line of the user's code: `model.py:41`, or a whole file.

    The compiler's records beside the trace say from which lines each compiled kernel comes: those
    whose work it does, not those whose result it reads through a view. A fused kernel comes from
    several, and a kernel of the backward from the line of its forward. A kernel that eager code
    launched has no line. It leaves the answer open where the op that launched it is one that
    compiled graphs have from that line, or where they have none from there.
    """
    if query.windows[0].evidence.trace.compiler_run is None:
        raise Unknown(NO_RECORDS)
    return per_window(_every if "quantifier" in query.args else _count)(query)


def _word(selector: Selector) -> str:
    """The op of a selector; `sort` is also the name of a role."""
    roles = [trait.value for trait in selector.traits if trait.kind == "role"]
    return op_of(selector) or next(iter(roles), "")


class _Pair:
    """Two ops, and the calls of compiled code that do them."""

    def __init__(
        self, ops: tuple[str, str], run: CompilerRun, compilations: list[Compilation]
    ) -> None:
        self.ops, self.compilations = ops, compilations
        self.does = {
            (each.id, place): launch_ops(CompiledLaunch(each, call)).does
            for each in compilations
            for place, call in enumerate(each.calls)
        }
        apart = [one for each in compilations for one in not_fused(each)]
        self.apart = [one for one in (*apart, *across_breaks(run)) if self._about(one)]

    @property
    def missing(self) -> list[str]:
        return [op for op in self.ops if not self._in(op)]

    @property
    def together(self) -> str:
        """A call that does both; empty if there is none."""
        names = (
            call.kernel
            for each in self.compilations
            for place, call in enumerate(each.calls)
            if self.does[each.id, place].issuperset(self.ops)
        )
        return next(names, "")

    def _about(self, one: Separation) -> bool:
        a = self.does.get((one.region, -1 if one.a_call is None else one.a_call), frozenset())
        b = self.does.get((one.b_region, -1 if one.b_call is None else one.b_call), frozenset())
        first, second = self.ops
        return (first in a and second in b) or (first in b and second in a)

    def _in(self, op: str) -> set[str]:
        """The compilations that have an op."""
        return {name for (name, _), does in self.does.items() if op in does}

    def reasons(self) -> list[str]:
        """Each reason once; without a pair that shares data, that this is so."""
        found = list(dict.fromkeys(one.code for one in self.apart))
        if found or self._in(self.ops[0]) & self._in(self.ops[1]):
            return found or ["no_shared_data"]
        if any(each.breaks for each in self.compilations):
            return ["graph_break"]
        raise Unknown("the two ops are in functions that were compiled apart")

    def lines(self) -> Iterator[str]:
        for one in self.apart:
            said = f' (Inductor: "{one.inductor}")' if one.inductor else ""
            place = f" at {one.stopped_at.place}" if one.stopped_at else ""
            yield f"{one.a} and {one.b}: {one.reason}{place}{said}"


# reason -> how people say it
WORDS = phrases("""
extern = extern; extern kernel; extern kernels; library; library kernel; library call
template = template; template without epilogue; template without prologue
order = order; iteration order; other iteration order; loop order
loops = loop dimensions; other loop dimensions
sizes = sizes; different sizes; other sizes; size mismatch
between = kernels between; other kernels between
mutation = mutation; mutation between
no_shared_data = no shared data
graph_break = graph-breaks
not_worth_it = heuristics
other = another rule
""")


@prediction(
    "separation",
    39,
    "{first:selector} and {second:selector} are|is not fused because [of] [a] {reason:reason}",
    "{first:selector} is|are not fused with {second:selector} because [of] [a] {reason:reason}",
    expected=lambda args: f"not fused because {REASONS[str(args['reason'])]}",
    records=True,
    slots={
        "reason": Slot(
            "extern kernel, template, iteration order, loop dimensions, different sizes, kernels "
            "between, mutation, no shared data, graph break, heuristics, another rule",
            one_phrase(WORDS, map(" ".join, WORDS)),
        )
    },
)
def _separated(query: Query) -> Measurement:
    """Why two ops are not one kernel, by the compiler's records beside the trace.

    The reason is that of every pair of kernels that do these ops and share data: an extern kernel
    (a library's matmul, attention, sort), a template, another iteration order, different sizes,
    other kernels in between, a mutation, no shared data, a graph break. `foretrace why --not-fused`
    lists them with what they cost. One kernel that does both ops is a miss.
    """
    window = query.windows[0]
    run = window.evidence.trace.compiler_run
    if run is None:
        raise Unknown(NO_RECORDS)
    if not window.whole:
        raise Unknown(WHOLE)
    pair = _word(query.args["first"]), _word(query.args["second"])
    if "" in pair:
        raise Unknown("fusion is about ops: say for example `gelu and mul are not fused because …`")
    found = _Pair(pair, run, list(mine(run, window.evidence.trace)))
    if found.missing:
        return Measurement("miss", f"no compiled kernel does {' or '.join(found.missing)}")
    if found.together:
        return Measurement("miss", f"one kernel: {found.together}", window=window)
    reasons = found.reasons()
    verdict = "hit" if set(reasons) == {query.args["reason"]} else "miss"
    shown = "; ".join(REASONS[reason] for reason in reasons)
    return Measurement(verdict, shown, window=window, lines=tuple(found.lines()))
