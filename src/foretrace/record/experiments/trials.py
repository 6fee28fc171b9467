"""One mode of torch.compile against eager: the numbers, and the verdict in words.

The verdict weighs what a call saves against what the first calls cost beyond warm ones, over all
shapes given. A difference within the noise is inconclusive.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.analyze.compare.measure import Change, Sample, measured
from foretrace.analyze.compare.verdict import break_even, on_the_gpu
from foretrace.base.units import count_text, percent_text, plural, ratio_text, span_text, time_text
from foretrace.schema.documents.compare import Worth
from foretrace.schema.documents.worth import CompiledShape, CompileMode, EagerCompiled, WorthVerdict

if TYPE_CHECKING:
    from foretrace.record.experiments.timing import Pace
    from foretrace.record.experiments.visits import Visit

WORTH, NOT_WORTH, UNKNOWN, FAILED = "worth", "not worth", "unknown", "failed"


@dataclass(frozen=True, slots=True)
class CallChanges:
    """What eager (a) and compiled (b) do in a call: counts of kernels, and sentences."""

    kernels: dict[str, int] | None
    changed: list[str]
    unchanged: list[str]


@dataclass(frozen=True, slots=True)
class ModeTrial:
    """One mode. `failed` is why it could not be compiled; `visits` are then those before that."""

    mode: str
    visits: Sequence[Visit]
    changes: CallChanges | None
    failed: str = ""

    def measured(self, of: Callable[[Pace], Sample]) -> Change:
        """Eager and compiled, each the mean over the shapes."""
        eager = _mean([of(visit.base) for visit in self.visits])
        return measured(eager, _mean([of(visit.pace) for visit in self.visits]))

    @property
    def wall(self) -> Change:
        """Wall time per call."""
        return self.measured(lambda pace: pace.wall)

    @property
    def gpu(self) -> Change:
        """GPU time per call."""
        return self.measured(lambda pace: pace.gpu)

    @property
    def worth(self) -> Worth:
        """What a call saves against the stalls of all shapes."""
        stalls_s = sum(visit.stall_ns for visit in self.visits) / 1e9
        calls = break_even(self.wall.saved, stalls_s) if self.wall.beyond else None
        return Worth(self.wall.saved, stalls_s, calls, "")

    @property
    def graph_breaks(self) -> Counter[str]:
        """How often each reason broke a graph, over all compilations."""
        return sum((Counter(visit.first.graph_breaks) for visit in self.visits), Counter())

    @property
    def state(self) -> str:
        """`worth`, `not worth`, `unknown` or `failed`."""
        if self.failed:
            return FAILED
        if not any(visit.compiled for visit in self.visits):
            return NOT_WORTH
        if not self.wall.beyond:
            return UNKNOWN
        return WORTH if self.worth.break_even_calls is not None else NOT_WORTH

    @property
    def text(self) -> str:
        """The verdict, one paragraph."""
        if self.failed:
            return f"Cannot be compiled: {self.failed}."
        parts = (_headline, _gpu_time, _kernels, _breaks, _shapes)
        return " ".join(text for part in parts if (text := part(self)))

    def document(self) -> CompileMode:
        """The entry of this mode."""
        head = (self.mode, self.state, self.text)
        if self.failed:
            return CompileMode(*head, self.failed)
        shapes = [_shape(visit) for visit in self.visits]
        weighed, changes = self.worth, self.changes or CallChanges(None, [], [])
        host = self.measured(lambda pace: pace.host)
        return CompileMode(
            *head, None, weighed.saves_ns_per_call, weighed.cost_s, weighed.break_even_calls,
            _numbers(self.wall), _numbers(host), _numbers(self.gpu),
            sum(shape.compile_s for shape in shapes), sum(shape.graphs for shape in shapes),
            dict(self.graph_breaks), sum(len(shape.recompiles) for shape in shapes),
            changes.kernels, changes.changed, changes.unchanged, shapes,
        )  # fmt: skip


def verdict(trials: Sequence[ModeTrial]) -> WorthVerdict:
    """The mode that saves the most among those that are worth it; else the first."""
    paying = [trial for trial in trials if trial.state == WORTH]
    best = max(paying, key=lambda trial: trial.worth.saves_ns_per_call or 0, default=trials[0])
    return WorthVerdict(best.mode, best.state, _verdict_text(trials, paying, best))


def _verdict_text(trials: Sequence[ModeTrial], paying: Sequence[ModeTrial], best: ModeTrial) -> str:
    count = len(trials)
    if count == 1:
        return best.text
    if not paying:
        return f"None of the {count} modes is shown to be worth it. {best.mode}: {best.text}"
    soonest = min(paying, key=lambda trial: trial.worth.break_even_calls or 0)
    text = f"Of {count} modes {best.mode} saves the most. {best.text}"
    if soonest is best:
        return text
    return f"{text} {soonest.mode} saves less and breaks even sooner, after {_calls(soonest)}."


def _headline(trial: ModeTrial) -> str:
    weighed = trial.worth
    cost = span_text(weighed.cost_s or 0)
    if trial.state == WORTH:
        lasting = span_text((weighed.break_even_calls or 0) * (trial.wall.b or 0) / 1e9)
        paid = f"Compile time ({cost}) breaks even after {_calls(trial)}, which take {lasting}."
        return f"Worth it: {_change(trial.wall)}. {paid}"
    if not any(visit.compiled for visit in trial.visits):
        return f"Not worth it: none of it runs compiled, and the attempt takes {cost}."
    if trial.state == NOT_WORTH:
        gpu = on_the_gpu(trial.gpu, weighed.cost_s, "call")
        return f"Not worth it: {_change(trial.wall)}. Compile time is {cost}.{gpu}"
    times = f"{time_text(trial.wall.a)} to {time_text(trial.wall.b)} per call"
    noise = percent_text(trial.wall.noise)
    return f"Inconclusive: {times} is within the noise of {noise}. Compile time is {cost}."


def _calls(trial: ModeTrial) -> str:
    return plural(trial.worth.break_even_calls or 0, "call")


def _change(value: Change) -> str:
    times = f"{time_text(value.a)} to {time_text(value.b)} per call"
    return f"{times} ({ratio_text(value.ratio)}, noise {percent_text(value.noise)})"


def _gpu_time(trial: ModeTrial) -> str:
    if trial.gpu.ratio is None:
        return ""
    return f"GPU time: {_change(trial.gpu)}{'' if trial.gpu.beyond else ', within the noise'}."


def _kernels(trial: ModeTrial) -> str:
    """Whether the kernels are the same; a CPU has none."""
    kernels = trial.changes.kernels if trial.changes else None
    if not kernels or not (kernels["a"] or kernels["b"]):
        return ""
    a, b, same = (count_text(kernels[name]) for name in ("a", "b", "same"))
    if a == b == same:
        return f"All {a} kernels per call are the same."
    return f"{same} of {a} kernels per call stay the same; the compiled call has {b}."


def _breaks(trial: ModeTrial) -> str:
    count = sum(trial.graph_breaks.values())
    return f"Part of it runs eagerly after {plural(count, 'graph break')}." if count else ""


def _shapes(trial: ModeTrial) -> str:
    visits, lines = trial.visits, []
    if len(visits) > 1:
        later = visits[1:]
        again = count_text(sum(bool(visit.first.recompiles) for visit in later))
        slow = max(later, key=lambda visit: visit.stall_ns)
        lines.append(
            f"Times are means over {len(visits)} shapes. {again} of {len(later)} later shapes "
            f"recompiled; their longest stall is {time_text(slow.stall_ns)}, at {slow.shape}."
        )
    eager = [visit.shape for visit in visits if not visit.compiled]
    if eager and len(eager) < len(visits):
        limit = " at its recompile limit" if any(v.first.hit_limit for v in visits) else ""
        lines.append(f"Dynamo gave up{limit}: {', '.join(eager)} runs eagerly.")
    return " ".join(lines)


def _mean(samples: list[Sample]) -> Sample:
    """The mean of medians and of spreads, each None where one of them is."""
    means = []
    for values in ([each.median for each in samples], [each.spread for each in samples]):
        known = [value for value in values if value is not None]
        means.append(statistics.fmean(known) if known and len(known) == len(values) else None)
    return Sample(*means)


def _shape(visit: Visit) -> CompiledShape:
    wall = _numbers(measured(visit.base.wall, visit.pace.wall))
    return CompiledShape(visit.shape, *visit.compilation, wall)


def _numbers(value: Change) -> EagerCompiled:
    return EagerCompiled(value.a, value.b, value.ratio, value.noise)
