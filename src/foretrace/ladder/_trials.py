"""Is compiling worth it: one mode of torch.compile against eager, as data, and the verdict in
words. Needs no torch.

Eager and compiled calls are timed in turns without a profiler (see `_pace`); the verdict weighs
what a call saves against what the first calls cost beyond warm ones, over all shapes given. Inside
the noise there is no verdict.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foretrace.comparison.measure import Change, Sample, measured
from foretrace.comparison.worth import on_the_gpu, worth
from foretrace.schema.documents.compare import Worth
from foretrace.units import count_text, percent_text, ratio_text, span_text, time_text

if TYPE_CHECKING:
    from foretrace.ladder._pace import Pace
    from foretrace.ladder._visits import Arrival

SCHEMA = 1
WORTH, NOT_WORTH, UNKNOWN, FAILED = "worth", "not worth", "unknown", "failed"


@dataclass(frozen=True, slots=True)
class Stay:
    """A mode at one shape, beside eager. `compiled`: whether compiled code runs there."""

    shape: str
    arrival: Arrival
    eager: Pace
    pace: Pace
    compiled: bool

    @property
    def stall_ns(self) -> float:
        return self.arrival.stall_ns(self.pace.wall.median or 0)

    def entry(self) -> dict[str, Any]:
        arrival = self.arrival
        return {
            "shape": self.shape,
            "first_call_ns": arrival.calls_ns[0],
            "stall_ns": self.stall_ns,
            "compile_s": arrival.compile_s,
            "graphs": arrival.graphs,
            "recompiles": list(arrival.recompiles),
            "gave_up": list(arrival.gave_up),
            "compiled": self.compiled,
            "wall_ns": _numbers(measured(self.eager.wall, self.pace.wall)),
        }


@dataclass(frozen=True, slots=True)
class Work:
    """What the traces of eager (a) and compiled (b) do in a call: kernels by their fate, and
    sentences. No times.
    """

    kernels: Mapping[str, int]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """One mode. `failed` is why it could not be compiled, and then the rest is what was there by
    then.
    """

    mode: str
    stays: tuple[Stay, ...]
    work: Work | None
    failed: str = ""

    def measured(self, of: Callable[[Pace], Sample]) -> Change:
        """Eager and compiled, each the mean over the shapes: every shape counts the same."""
        return measured(
            _mean([of(stay.eager) for stay in self.stays]),
            _mean([of(stay.pace) for stay in self.stays]),
        )

    @property
    def wall(self) -> Change:
        return self.measured(lambda pace: pace.wall)

    @property
    def gpu(self) -> Change:
        return self.measured(lambda pace: pace.gpu)

    @property
    def worth(self) -> Worth:
        """A call in a row of calls is its pace; the cost is every stall that compiling brought."""
        return worth(self.wall, self.gpu, sum(stay.stall_ns for stay in self.stays) / 1e9, "call")

    @property
    def graph_breaks(self) -> dict[str, int]:
        """How often each reason cut a graph, over all compilations."""
        found: Counter[str] = Counter()
        for stay in self.stays:
            found.update(stay.arrival.graph_breaks)
        return dict(found)

    @property
    def state(self) -> str:
        if self.failed:
            return FAILED
        if not any(stay.compiled for stay in self.stays):
            return NOT_WORTH
        if not self.wall.beyond:
            return UNKNOWN
        return WORTH if self.worth.break_even_calls is not None else NOT_WORTH

    @property
    def text(self) -> str:
        """The verdict, one paragraph."""
        if self.failed:
            return f"Cannot be compiled: {self.failed}."
        return " ".join(
            [_headline(self), *_on_gpu(self), *_kernels(self), *_breaks(self), *_shapes(self)]
        )

    def document(self) -> dict[str, Any]:
        if self.failed:
            return {"mode": self.mode, "state": FAILED, "text": self.text, "failed": self.failed}
        work, weighed = self.work, self.worth
        return {
            "mode": self.mode,
            "state": self.state,
            "text": self.text,
            "failed": None,
            "saves_ns_per_call": weighed.saves_ns_per_call,
            "cost_s": weighed.cost_s,
            "break_even_calls": weighed.break_even_calls,
            "wall_ns": _numbers(self.wall),
            "host_ns": _numbers(self.measured(lambda pace: pace.host)),
            "gpu_ns": _numbers(self.gpu),
            "compile_s": sum(stay.arrival.compile_s for stay in self.stays),
            "graphs": sum(stay.arrival.graphs for stay in self.stays),
            "graph_breaks": self.graph_breaks,
            "recompiles": sum(len(stay.arrival.recompiles) for stay in self.stays),
            "kernels": dict(work.kernels) if work else None,
            "changed": list(work.changed) if work else [],
            "unchanged": list(work.unchanged) if work else [],
            "shapes": [stay.entry() for stay in self.stays],
        }


@dataclass(frozen=True, slots=True)
class Trials:
    """Every mode that was tried on one subject. `facts` say where and how; `notes` what a reader
    must know.
    """

    facts: Mapping[str, Any]
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """What `foretrace worth --json` prints."""
        best = self.best
        return {
            "schema": SCHEMA,
            **self.facts,
            "verdict": {"mode": best.mode, "state": best.state, "text": self.text},
            "modes": [trial.document() for trial in self.trials],
            "notes": list(self.notes),
        }

    @property
    def best(self) -> Trial:
        """The mode that saves the most among those that are worth it; else the first."""
        paying = [trial for trial in self.trials if trial.state == WORTH]
        return (
            max(paying, key=lambda trial: trial.worth.saves_ns_per_call or 0)
            if paying
            else self.trials[0]
        )

    @property
    def text(self) -> str:
        best, count = self.best, len(self.trials)
        if count == 1:
            return best.text
        if best.state != WORTH:
            return f"None of the {count} modes is shown to be worth it. {best.mode}: {best.text}"
        paying = [trial for trial in self.trials if trial.state == WORTH]
        soonest = min(paying, key=lambda trial: trial.worth.break_even_calls or 0)
        sooner = (
            ""
            if soonest is best
            else f" {soonest.mode} saves less and pays sooner, after {_calls(soonest)} calls."
        )
        return f"Of {count} modes {best.mode} saves the most. {best.text}{sooner}"


def _headline(trial: Trial) -> str:
    wall, weighed = trial.wall, trial.worth
    cost = f"compiling costs {span_text(weighed.cost_s or 0)} once"
    if trial.state == WORTH:
        lasting = span_text((weighed.break_even_calls or 0) * (wall.b or 0) / 1e9)
        return (
            f"Worth it after {_calls(trial)} calls ({lasting} of them): a call takes "
            f"{_against(wall)}, and {cost}."
        )
    if not any(stay.compiled for stay in trial.stays):
        return (
            "Not worth it: nothing of it runs compiled, and trying costs "
            f"{span_text(weighed.cost_s or 0)}."
        )
    if trial.state == NOT_WORTH:
        return (
            f"Not worth it: a call takes {_against(wall)}, and "
            f"{cost}.{on_the_gpu(trial.gpu, weighed.cost_s, 'call')}"
        )
    return (
        f"Cannot be told: a call takes {time_text(wall.b)} instead of {time_text(wall.a)}, and "
        "the difference lies inside "
        f"the noise of {percent_text(wall.noise)}; {cost}."
    )


def _calls(trial: Trial) -> str:
    return count_text(trial.worth.break_even_calls)


def _against(value: Change) -> str:
    return (
        f"{time_text(value.b)} instead of {time_text(value.a)} ({ratio_text(value.ratio)}, noise "
        f"{percent_text(value.noise)})"
    )


def _on_gpu(trial: Trial) -> list[str]:
    if trial.gpu.ratio is None:
        return []
    inside = "" if trial.gpu.beyond else ", which is inside the noise"
    return [f"The GPU works {_against(trial.gpu)} on a call{inside}."]


def _kernels(trial: Trial) -> list[str]:
    """Whether the kernels are the same; a CPU has none."""
    kernels = trial.work.kernels if trial.work else {}
    if not kernels.get("a") and not kernels.get("b"):
        return []
    if kernels["same"] == kernels["a"] == kernels["b"]:
        return [f"All {count_text(kernels['a'])} kernels of a call are the same."]
    return [
        f"Of {count_text(kernels['a'])} kernels in a call {count_text(kernels['same'])} stay the "
        "same; compiled there are "
        f"{count_text(kernels['b'])}."
    ]


def _breaks(trial: Trial) -> list[str]:
    count = sum(trial.graph_breaks.values())
    return (
        [
            f"{count_text(count)} graph {'break leaves' if count == 1 else 'breaks leave'} part "
            "of it eager."
        ]
        if count
        else []
    )


def _shapes(trial: Trial) -> list[str]:
    """What the change of shapes brought."""
    stays = trial.stays
    lines = []
    if len(stays) > 1:
        later = stays[1:]
        again, slow = (
            sum(bool(stay.arrival.recompiles) for stay in later),
            max(later, key=lambda stay: stay.stall_ns),
        )
        lines.append(
            f"Times are means over {len(stays)} shapes. After the first shape it was compiled "
            "again at "
            f"{count_text(again)} of {len(later)}; the longest stall there is "
            f"{time_text(slow.stall_ns)}, at "
            f"{slow.shape}."
        )
    eager = [stay.shape for stay in stays if not stay.compiled]
    if eager and len(eager) < len(stays):
        limit = " at its recompile limit" if any(stay.arrival.hit_limit for stay in stays) else ""
        lines.append(f"Dynamo gave up{limit}, and {', '.join(eager)} runs eagerly.")
    return lines


def _mean(samples: list[Sample]) -> Sample:
    medians = [each.median for each in samples if each.median is not None]
    spreads = [each.spread for each in samples if each.spread is not None]
    return Sample(
        statistics.fmean(medians) if samples and len(medians) == len(samples) else None,
        statistics.fmean(spreads) if samples and len(spreads) == len(samples) else None,
    )


def _numbers(value: Change) -> dict[str, float | None]:
    return {"a": value.a, "b": value.b, "ratio": value.ratio, "noise": value.noise}
