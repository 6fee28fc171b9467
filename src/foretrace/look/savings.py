"""What a step takes without the profiler and with each fix, and what a finding saves.

`look.fixes.typical` replays the step; here it becomes part of documents.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from foretrace.base import plugins
from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.look import fixes, rules
from foretrace.look.documents import Finding, Findings, FixEntry, PredictedFixes, StepTime
from foretrace.look.fixes import Predicted, predicted, why_not
from foretrace.look.measured_step import MeasuredStep
from foretrace.look.steering import Steering
from foretrace.trace import bounds
from foretrace.trace.bounds import MOSTLY_IDLE, PARTLY_IDLE, measured_spans
from foretrace.trace.cpu_ops import runs_on_cpu
from foretrace.trace.opening import opened
from foretrace.trace.trace import Trace

SURELY = 0.97  # of the recorded time: what is longer is the recorded time


def findings(trace: Trace | str | os.PathLike[str]) -> Findings:
    """Every rule on one trace: findings by largest possible saving, then the rest by name.

    `trace` may be a path or the name of a recording.
    """
    found = opened(trace)
    seen = rules.run_all(found)
    return with_savings(seen, predicted(found, seen))


def with_savings(seen: Sequence[Finding], future: Predicted | None) -> Findings:
    """These findings with what the replay says of their fixes."""
    if future is None:
        return rules.ordered(seen)
    wanted = {rule.name: rule.fixes for rule in rules.rules()}
    return rules.ordered(_with_saving(each, wanted.get(each.rule, ()), future) for each in seen)


def _with_saving(finding: Finding, names: Sequence[str], future: Predicted) -> Finding:
    """A finding with the largest saving of its fixes; its own bound where none applies, or where
    something else must go first.
    """
    mine = (each for each in future.every if each.fix in names)
    chosen = [each for each in mine if not each.proposal.first]
    best = min(chosen, key=lambda each: each.ns, default=None)
    if best is None or finding.state != "found":
        return finding
    # a saving is that of a step, or without steps of the whole recording
    times = 1 if future.step.trace.order.steps else max(future.step.repeats, 1)
    saves, most = (round(ns * times) for ns in (future.now_ns - best.ns, future.saved_ns(best)))
    if saves <= 0:
        return finding
    most = max(most, finding.at_most_ns or 0)
    return replace(finding, saves_ns=saves, at_most_ns=most, fix=best.proposal.order)


def without_profiler(trace: Trace, step: MeasuredStep, found: Predicted | None) -> MeasuredStep:
    """The step with the time that it takes without the profiler, and what bounds it then."""
    if found is None or not step.profiled:
        return step
    # as `look --fixes` says them; times of a step are sums over its GPUs
    now, recorded = found.now_ns * step.devices, max(found.recorded_ns * step.devices, step.busy_ns)
    wall = max(now, step.busy_ns)
    if wall > SURELY * recorded:
        return replace(step, wall_ns=recorded)
    idle, bound = 1 - step.busy_ns / wall, step.bound
    if bound in ("host", "sync") and idle <= MOSTLY_IDLE:
        # a recording without steps and regions has no spans
        work = np.concatenate([span.work for span in step.spans] or [trace.gpu.launch_order])
        bound = "mixed" if idle > PARTLY_IDLE else bounds.of_work(trace, work)
    apart = None if step.apart_ns is None else step.apart_ns * wall / recorded
    return replace(step, wall_ns=wall, bound=bound, apart_ns=apart, recorded_ns=recorded)


def time_of(found: Predicted) -> StepTime:
    """How long the step takes."""
    times = found.recorded_ns, found.replayed_ns, found.now_ns, found.low_ns, found.high_ns
    return StepTime(*times)


def entries(found: Predicted) -> list[FixEntry]:
    """The fixes of the document; each with its time after the first one."""
    per = measured_spans(found.step.trace)[0]
    # fixes speak of steps; what was replayed may be a batch, a call of a region, or the recording
    unit = "per call" if per.startswith("per call") else per
    compiled = next((one for one in found.fixes if one.fix == "compile"), None)
    rows = []
    for at, each in enumerate(found.fixes):
        first, proposal = found.fixes[0], each.proposal
        alone = not at or found.contains(first, each)
        is_graph = each.fix == "cuda_graph"
        with_graph = found.together([compiled, each]) if compiled and is_graph else None
        rows.append(
            FixEntry(
                *(each.fix, proposal.order, proposal.why.replace("per step", unit)),
                *(each.ns, each.low_ns, each.high_ns),
                None if alone else found.together([first, each]),
                *(proposal.first, proposal.risk, proposal.events),
                with_graph,
                code_in(proposal.order),
            )
        )
    return rows


# What an order names is not always what to write.
_WRITTEN = {
    "torch.compile(model)": "model = torch.compile(model)",
    "torch.cuda.make_graphed_callables": "model = torch.cuda.make_graphed_callables(model, (x,))",
}
_INSIDE = r"\((?:[^()]|\([^()]*\))*\)"  # brackets in brackets, as in F.one_hot(i, n).to(x.dtype)
_CODE = regex(
    r"cache\[[^\]]*\] = \w+"  # an assignment, a setting, a call, a dotted name
    r"|\b[A-Za-z_]\w*=[\w.:]+"
    rf"|(?:\b[A-Za-z_][\w.]*|\.\w+){_INSIDE}(?:\.\w+(?:{_INSIDE})?)*(?: @ \w+)?"
    r"|\b(?:torch|nn|F)\.[\w.]*\w"
)


def code_in(order: str) -> str:
    """The code that an order names, to be copied; "" where it names none, or some to remove."""
    found = None if order.startswith(("remove", "drop", "take")) else _CODE.search(order)
    return _WRITTEN.get(found[0], found[0]) if found else ""


def next_fix(found: list[FixEntry]) -> FixEntry | None:
    """What to do after the first fix: what shortens the step then."""
    if not found or found[0].first:
        return None
    least = (1 - fixes.WORTH) * found[0].ns
    left = [each for each in found[1:] if each.after_ns is not None and each.after_ns < least]
    return min(left, key=lambda each: (bool(each.first), each.after_ns or 0.0), default=None)


def predict_fixes(
    trace: Trace, names: Sequence[str], steering: Steering | None = None
) -> PredictedFixes:
    """The document of `look --fixes`. Raises `UsageError` for a fix that does not apply. A fix
    that is named is shown, ignored or not.
    """
    per, choice = measured_spans(trace)[0], steering or Steering()
    every = rules.run_all(trace) if choice else None
    seen = [each for each in every if choice.keeps(each.rule)] if every is not None else None
    future = predicted(trace, seen, lambda fix: fix in names or choice.advises(fix))
    if future is None:
        reason = f"no step of this trace can be replayed: {why_not(trace)}"
        if runs_on_cpu(trace):
            measure = "foretrace try SCRIPT measures each fix, foretrace look says what to do first"
            reason = f"what a fix brings on a CPU depends on the machine: {measure}"
        return PredictedFixes(trace.path, per, None, [], [], None, reason)
    by_name = {each.fix: each for each in future.fixes}
    if wrong := [name for name in names if name not in by_name]:
        known = ", ".join(by_name) or "none"
        raise UsageError(f"no fix {wrong[0]!r} applies to this step; those that do: {known}")
    together = future.together([by_name[name] for name in names]) if names else None
    manual = {
        fix.name: "\n\n".join(plugins.manual(fix.find))
        for fix in fixes.fixes()
        if fix.name in by_name
    }
    step, found = time_of(future), entries(future)
    ignored = choice.withheld((), future.withheld)
    needs = (rules.NEEDS[need] for need in ("ops", "shapes"))
    lacking = [f"needs {advice}" for has, advice in needs if not has(trace)]
    return PredictedFixes(
        *(trace.path, per, step, found, list(names), together),
        reason="" if found or not lacking else lacking[0],
        manual=manual,
        ignored=ignored,
    )
