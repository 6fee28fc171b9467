"""Kernels of compiled code that stay apart, and the compiler's reason.

What it shows: the graph breaks that part the kernels of a step, by the user's line, and the pairs
of neighbouring kernels in one graph that share data and are two kernels, with the reason.

Why it matters: across a graph break nothing is fused, and Python runs between the two graphs. Two
kernels in one graph write a tensor and read it again. For most of such pairs the reason is an
extern kernel, that is a library's product or attention.

How it is computed: from the compiler's records beside the trace. Where a launch belongs to another
graph than the one before it on its stream, and a graph break ended that one, the line of the break
parts the two. The pairs are those of `foretrace why --not-fused`; the saving is at most that of the
pair that costs most.

When it is wrong: two kernels on both sides of a break need not share data. A library's product may
be faster alone than a template with an epilogue: `mode="max-autotune"` measures both.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from foretrace import families, why
from foretrace.analyses._common import LISTED, ids, per, shortened
from foretrace.model.trace import Trace
from foretrace.schema.compiler import CompiledLaunch, GraphBreak
from foretrace.schema.documents.why import NotFused
from foretrace.schema.finding import Finding, Rule
from foretrace.units import bytes_text, plural, time_text

Border = tuple[GraphBreak, int, int]  # the break, the launch before it and the one behind


def _check(trace: Trace) -> Iterator[Finding]:
    if not trace.compiled:
        return
    yield from _breaks(trace)
    yield from _pairs(trace)


def _breaks(trace: Trace) -> Iterator[Finding]:
    borders = list(_borders(trace))
    if not borders:
        return
    each = {one.source: (one, before, behind) for one, before, behind in borders}
    first, before, behind = borders[0]
    title = f"{_ops(trace, before)} and {_ops(trace, behind)} are separate: {_broken(first)}"
    more = f" {plural(len(each) - 1, 'more line')} of graph breaks." if len(each) > 1 else ""
    reason = first.reason.strip().rstrip(".")
    hint = f" {first.hint.strip()}" if first.hint else ""
    detail = f"Dynamo ended a graph there: {reason}.{hint} Nothing is fused across it.{more}"
    lines = [{"line": line.place, "reason": one.reason} for line, (one, _, _) in each.items()]
    events = sorted({event for _, *both in borders for event in both})
    repair = f"remove the graph break at {first.source.place}"
    yield Finding(RULE.name, "found", title, detail, {"breaks": lines}, ids(events), None, repair)


def _borders(trace: Trace) -> Iterator[Border]:
    """Neighbouring launches on one stream that a graph break parts."""
    order = trace.order
    rows = zip(order.event.tolist(), order.lane.tolist(), strict=True)
    for (before, lane), (behind, other) in pairwise(rows):
        a, b = trace.compiled.get(before), trace.compiled.get(behind)
        if a and b and lane == other and a.compilation is not b.compilation:
            yield from ((one, before, behind) for one in a.compilation.breaks[:1])


def _broken(one: GraphBreak) -> str:
    return f"graph break at {one.source.place}"


def _ops(trace: Trace, event: int) -> str:
    from foretrace.why.origins import performed

    launch: CompiledLaunch = trace.compiled[event]
    named = sorted(performed(launch)) or [launch.call.kernel.rpartition(".")[2]]
    return "+".join(named[:3]) + ("+…" if len(named) > 3 else "")


def _pairs(trace: Trace) -> Iterator[Finding]:
    """The neighbours in one graph, the dearest first."""
    run = why.of(trace)
    if run is None:
        return
    pairs = [one for one in why.explain(run, trace).not_fused if one.at_most_ns]
    if not pairs:
        return
    pairs.sort(key=lambda one: -(one.at_most_ns or 0))
    first, saved = pairs[0], trace.order.per_step(pairs[0].at_most_ns or 0)
    where = shortened([line.place for line in first.sources], 2)
    title = f"{_kernel(first.a)} and {_kernel(first.b)} are separate: {first.reason}"
    moved = f"one kernel would move {bytes_text(first.bytes)} less, " if first.bytes else ""
    detail = (
        f"{where}: {moved}at most {time_text(saved)} {per(trace)}. "
        f"{plural(len(pairs), 'pair')} of neighbours in compiled graphs share data; "
        "`foretrace why --not-fused` lists them."
    )
    evidence = {"pairs": [_entry(one) for one in pairs[:LISTED]], "count": len(pairs)}
    yield Finding(RULE.name, "found", title, detail, evidence, (), saved)


def _kernel(handle: str) -> str:
    """`extern_kernels.mm:1` -> `mm`, and a generated kernel as tables call it."""
    name = handle.rpartition(":")[0] or handle
    known = families.decode(name)
    generated = known.family.startswith("inductor")
    return known.short if generated else name.removeprefix("extern_kernels.")


def _entry(one: NotFused) -> dict[str, object]:
    lines = [line.place for line in one.sources]
    words = {"a": one.a, "b": one.b, "reason": one.reason, "inductor": one.inductor}
    return {**words, "bytes": one.bytes, "at_most_ns": one.at_most_ns, "lines": lines}


RULE = Rule(
    "compiled_apart",
    "Kernels of compiled code that stay apart, and why",
    _check,
    ("ops", "compiler"),
)
