"""Why two ops are not one kernel, by the compiler's records beside the trace.

The reason is that of every pair of kernels that do these ops and share data: an extern kernel (a
library's matmul, attention, sort), a template, another iteration order, different sizes, other
kernels in between, a mutation, no shared data, a graph break. `foretrace why
--not-fused` lists them with what they cost. One kernel that does both ops is a miss.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.analyze.guess.evidence import launch_ops
from foretrace.analyze.guess.grammar import Slot, one_phrase, phrases
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query
from foretrace.analyze.guess.kinds.compiler import NO_RECORDS, WHOLE, mine
from foretrace.analyze.guess.kinds.fusion import op_of
from foretrace.analyze.guess.windows import Unknown
from foretrace.analyze.guess.words import Selector
from foretrace.analyze.why.not_fused import not_fused
from foretrace.analyze.why.refusals import REASONS, Separation, across_breaks
from foretrace.schema.compiler import Compilation, CompiledLaunch, CompilerRun


def measure(query: Query) -> Measurement:
    """Judge `gelu and mul are not fused because extern kernel`."""
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
KIND = GuessKind(
    "separation",
    39,
    (
        "{first:selector} and {second:selector} are|is not fused because [of] [a] {reason:reason}",
        "{first:selector} is|are not fused with {second:selector} because [of] [a] {reason:reason}",
    ),
    measure,
    expected=lambda args: f"not fused because {REASONS[str(args['reason'])]}",
    records=True,
    slots={
        "reason": Slot(
            "extern kernel, template, iteration order, loop dimensions, different sizes, kernels "
            "between, mutation, no shared data, graph break, heuristics, another rule",
            one_phrase(WORDS, map(" ".join, WORDS)),
        ),
    },
)
