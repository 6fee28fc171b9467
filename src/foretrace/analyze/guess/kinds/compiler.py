"""What torch.compile did: graph breaks, recompilations, graphs, compile time.

The compiler's records beside the trace decide (`foretrace record --why`, `capture(why=True)`). They
cover the whole program, so that these predictions take no step or region. A graph break counts once
for its line. A trace alone shows versions of compiled regions that ran: `recompiles == 0` misses on
`Torch-Compiled Region: 0/1`, and is unknown where only `0/0` ran. `graphs` are those that Dynamo
made; per step, in a region, or where nothing is compiled they are launches of CUDA graphs, as
`cuda graphs` always are. The compile time without records is that of the run record.
"""

from __future__ import annotations

from dataclasses import replace

from foretrace.analyze.guess import compiling
from foretrace.analyze.guess.amounts import EQUALS, Amount, Compare
from foretrace.analyze.guess.compiling import CompilerFact
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, comparison, counts
from foretrace.analyze.guess.selectors import HEADS
from foretrace.analyze.guess.windows import Unknown

_COUNTED = "|".join(compiling.COUNTED)


def measure(query: Query) -> Measurement:
    """Judge `graph breaks == 0` or `compile time < 30 s`."""
    window, word = query.windows[0], query.args.get("graph-breaks", "")
    trace = window.evidence.trace
    compiled = window.evidence.is_compiled or trace.compiler_run is not None
    if word == "graphs" and not (window.whole and compiled):
        launched = {**query.args, "what": HEADS["cuda-graphs"]}
        return counts.KIND.measure(replace(query, args=launched))
    if not window.whole:
        raise Unknown(compiling.WHOLE)
    if word:
        fact = compiling.COUNTED[word](trace)
        return _judged(query, fact, query.args.get("number", Amount("0", 0)), fact.shown)
    fact = compiling.compile_ns(trace)
    return _judged(query, fact, query.args["amount"], compiling.shown_time(fact))


def _judged(query: Query, fact: CompilerFact, wanted: Amount, shown: str) -> Measurement:
    compare: Compare = query.args.get("compare", EQUALS)
    verdict = compare.verdict(fact.low, fact.high, wanted)
    said = {"unknown": fact.missing, "miss": next(iter(fact.reasons), "")}
    return Measurement(verdict, shown, said.get(verdict, ""), query.windows[0], lines=fact.lines)


# other words for its own
_PHRASES = """
graph break|breaks = graph-breaks ; graph_break|graph_breaks|graph-break = graph-breaks
recompile|recompilation|recompilations = recompiles
compiled|dynamo|fx graph|graphs = compiled-graphs
compile|compilation|compiling time = compile-time
compiles|compile in = compile-time <= ; compiling takes = compile-time
"""
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
    phrases=_PHRASES,
)
