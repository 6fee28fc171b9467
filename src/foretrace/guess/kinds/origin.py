"""Who asked for it: the steps, regions and ops around a kernel or an op, the outermost first.

The names must appear in this order; others may lie between them. `ProfilerStep*` is any step.
"""

from __future__ import annotations

from collections.abc import Iterable

from foretrace.guess.kinds.fields import seen
from foretrace.guess.reading import Ask, Kind, Reading, for_each, judge_all
from foretrace.guess.scope import named
from foretrace.guess.select import find
from foretrace.guess.things import Thing
from foretrace.guess.view import View


def measure(ask: Ask) -> Reading:
    return for_each(ask, lambda view: _from(view, ask))


def _from(view: View, ask: Ask) -> Reading:
    thing: Thing = ask.args["what"]
    found = find(view, thing)
    chains = [
        _chain(view, int(view.work.trace.gpu.launch[item]) if found.on_gpu else item)
        for item in found.sure
    ]
    no = None if view.gap else False  # an op above it may be what is missing
    answers = [
        None if chain is None else _runs_through(chain, ask.args["chain"]) or no for chain in chains
    ]
    verdict = judge_all(ask.args["quantifier"], answers, found.unclear)
    why = ""
    if verdict == "unknown":
        why = view.gap or (
            "not every launch was recorded" if answers else f"no {thing.text} in {view.label}"
        )
    rows, events = (found.sure, []) if found.on_gpu else ([], found.sure)
    measured = seen([" > ".join(chain) if chain else "nothing" for chain in chains])
    return Reading(verdict, measured, why, rows=rows, events=events)


def _chain(view: View, event: int) -> list[str] | None:
    """Names of everything around a host event, itself last when it is an op."""
    host = view.work.trace.host
    if event < 0:
        return None
    names = []
    while event >= 0:
        if host.is_op[event] or host.is_region[event] or host.is_step[event]:
            names.append(host.names[host.name[event]])
        event = int(host.parent[event])
    return names[::-1]


def _runs_through(chain: Iterable[str], wanted: list[str]) -> bool:
    left = iter(chain)
    return all(any(named(name, found) for found in left) for name in wanted)


KIND = Kind(
    name="origin",
    order=28,
    patterns=("{quantifier:quantifier} {what:things} comes|come from {chain:chain}",),
    measure=measure,
    examples={
        "every gemm comes from aten::linear > aten::matmul > aten::mm": "how a product was reached",
        "every aten::mm comes from ProfilerStep* > mlp_fwd": "steps and regions count, too",
        "no kernel comes from aten::copy_": "nothing is copied by a kernel",
    },
)
