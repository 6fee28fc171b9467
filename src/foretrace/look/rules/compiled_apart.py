"""Kernels of compiled code that stay apart, and the compiler's reason.

What it shows: the graph breaks that part the kernels of a step, by the user's line, and the pairs
of neighbouring kernels in one graph that share data and are two kernels, with the reason.

Why it matters: across a graph break nothing is fused, and Python runs between the two graphs. Two
kernels in one graph write a tensor and read it again. For most of such pairs the reason is a
library kernel (extern): a GEMM or attention.

How it is computed: from the compiler's records beside the trace. The pairs are those of `foretrace
why --not-fused`; the saving is at most that of the pair that costs most. Where no pair across a
graph break is known to share data, the break parts a launch from the next one on its stream that
belongs to another graph.

When it is wrong: two kernels on both sides of a break need not share data. A library's matmul may
be faster alone than a template with an epilogue: `mode="max-autotune"` measures both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from foretrace import why
from foretrace.base.units import bytes_text, plural, time_text
from foretrace.look.finding import Finding
from foretrace.look.rules._seen import LISTED, Found, Seen, rule, shortened
from foretrace.read.compiler.records import CompiledLaunch, CompilerRun, GraphBreak
from foretrace.work import families

if TYPE_CHECKING:
    from foretrace.why.documents import NotFused


@rule(
    "Kernels of compiled code that stay apart, and why", "ops compiler", example="mlp_max_autotune"
)
def _check(seen: Seen) -> Found:
    run = seen.trace.compiler_run if seen.trace.compiled else None
    if run is None:
        return
    pairs = [one for one in why.explain(run, seen.trace).not_fused if one.at_most_ns]
    pairs.sort(key=lambda one: -(one.at_most_ns or 0))
    broken = [one for one in pairs if one.stopped_at]
    yield from list(_broken(seen, run, broken) if broken else _borders(seen))[:1]
    if whole := [one for one in pairs if not one.stopped_at]:
        yield _in_graphs(seen, whole)


def _broken(seen: Seen, run: CompilerRun, pairs: list[NotFused]) -> Iterator[Finding]:
    """Kernels of two graphs, one of which reads what the other wrote."""
    every = [one for each in run.compilations for one in each.breaks]
    for one in pairs:
        found = next((each for each in every if each.source == one.stopped_at), None)
        if found is not None:
            names, saved = f"{_kernel(one.a)} and {_kernel(one.b)}", _per_step(seen, one)
            yield _finding(seen, names, found, every, _events(seen, one), saved)


def _borders(seen: Seen) -> Iterator[Finding]:
    """Neighbouring launches of two graphs, where what they share is not known."""
    compiled = seen.trace.compiled
    rows = zip(seen.order.event.tolist(), seen.order.lane.tolist(), strict=True)
    for (before, lane), (behind, other) in pairwise(rows):
        a, b = compiled.get(before), compiled.get(behind)
        if a and b and lane == other and a.compilation is not b.compilation:
            for one in a.compilation.breaks[:1]:
                names = f"{_ops(a)} and {_ops(b)}"
                yield _finding(seen, names, one, [one], [before, behind])


def _finding(
    seen: Seen,
    names: str,
    one: GraphBreak,
    every: Sequence[GraphBreak],
    events: Sequence[int],
    saved: int | None = None,
) -> Finding:
    place, lines = one.source.place, {each.source.place: each.reason for each in every}
    more = f" {plural(len(lines) - 1, 'more line')} of graph breaks." if len(lines) > 1 else ""
    hint = f" {one.hint.strip()}" if one.hint else ""
    reason = one.reason.strip().rstrip(".")
    title = f"{names} are separate: graph break at {place}"
    detail = f"Dynamo ended a graph there: {reason}.{hint} Nothing is fused across it.{more}"
    evidence = {"breaks": [{"line": line, "reason": text} for line, text in lines.items()]}
    fix = f"remove the graph break at {place}"
    return seen.found(title, detail, evidence, events, saved, fix)


def _ops(launch: CompiledLaunch) -> str:
    from foretrace.trace.compiled.provenance import performed

    named = sorted(performed(launch)) or [launch.call.kernel.rpartition(".")[2]]
    return "+".join(named[:3]) + ("+…" if len(named) > 3 else "")


def _in_graphs(seen: Seen, pairs: list[NotFused]) -> Finding:
    """The neighbours in one graph, the largest saving first."""
    first, saved = pairs[0], _per_step(seen, pairs[0])
    unit = "per step" if seen.trace.has("steps") else "in the whole recording"
    where = shortened([line.place for line in first.sources], 2)
    title = f"{_kernel(first.a)} and {_kernel(first.b)} are separate: {first.reason}"
    moved = f"one kernel would move {bytes_text(first.bytes)} less, " if first.bytes else ""
    detail = (
        f"{where}: {moved}at most {time_text(saved)} {unit}. "
        f"{plural(len(pairs), 'pair')} of neighbours in compiled graphs share data; "
        "`foretrace why --not-fused` lists them."
    )
    words = ("a", "b", "reason", "inductor", "bytes", "at_most_ns")
    shown = [
        {word: getattr(one, word) for word in words}
        | {"lines": [line.place for line in one.sources]}
        for one in pairs[:LISTED]
    ]
    evidence = {"pairs": shown, "count": len(pairs)}
    return seen.found(title, detail, evidence, _events(seen, first), saved)


def _per_step(seen: Seen, one: NotFused) -> int:
    """What a pair costs at most in a step; on a CPU no step has GPU work."""
    steps = seen.order.steps or len(seen.trace.spans.steps) or 1
    return round((one.at_most_ns or 0) / steps)


def _events(seen: Seen, one: NotFused) -> list[int]:
    """The launches of both kernels of a pair."""
    regions = {one.region, one.b_region or one.region}
    return sorted(
        event
        for event, launch in seen.trace.compiled.items()
        if launch.compilation.id in regions
        and (launch.call.handle or launch.call.kernel) in (one.a, one.b)
    )


def _kernel(handle: str) -> str:
    """`extern_kernels.mm:1` -> `mm`, and a generated kernel as tables call it."""
    name = handle.rpartition(":")[0] or handle
    known = families.decode(name)
    generated = known.family.startswith("inductor")
    return known.short if generated else name.removeprefix("extern_kernels.")
