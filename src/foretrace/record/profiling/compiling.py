"""What torch.compile did since a moment: seconds, frames, graph breaks, recompilations.

Dynamo keeps these in `counters` and in a list of compilation metrics. The fields of a metric change
from version to version (torch 2.6 to 2.13 are known), so any of them may be missing.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

# Fields of a metric: in microseconds where torch has them, else in seconds.
STARTED = ("start_time_us", "start_time")
TAKEN = ("duration_us", "entire_frame_compile_time_s")


@dataclass(frozen=True, slots=True)
class CompileWatch:
    """Remembers Dynamo's counters; `report()` says what came since."""

    begun_s: float = field(default_factory=time.time)
    before: dict[str, dict[str, int]] = field(default_factory=lambda: _counters())

    def report(self) -> dict[str, Any]:
        """Seconds, frames, graphs, graph breaks {reason: count}, recompiles and gave_up [reason].

        A frame that Dynamo gave up on, for example at its recompile limit, runs eagerly from then
        on; `gave_up` is the only sign of it.
        """
        listed: list[Any] = getattr(_dynamo(), "get_compilation_metrics", list)()
        metrics = [metric for metric in listed if _seconds(metric, *STARTED) >= self.begun_s]
        failures = [getattr(metric, "fail_reason", None) for metric in metrics]
        reasons = [
            getattr(metric, "recompile_reason", None)
            for metric, why in zip(metrics, failures, strict=True)
            if not why
        ]
        breaks: Counter[str] = Counter()
        for why in _counters().get("graph_break", {}):
            breaks[_first_line(why)] += self._since("graph_break", why)
        return {
            "seconds": round(sum(_seconds(metric, *TAKEN) for metric in metrics), 6),
            "frames": self._since("frames", "ok"),
            "graphs": self._since("stats", "unique_graphs"),
            "graph_breaks": dict(+breaks),
            "recompiles": [_first_line(str(reason)) for reason in reasons if reason],
            "gave_up": [_first_line(str(why)) for why in failures if why],
        }

    def _since(self, group: str, name: str) -> int:
        return _counters().get(group, {}).get(name, 0) - self.before.get(group, {}).get(name, 0)


def _dynamo() -> Any:
    # Not imported here, which takes a second: if nothing imported Dynamo, nothing was compiled.
    return sys.modules.get("torch._dynamo.utils")


def _counters() -> dict[str, dict[str, int]]:
    counters = getattr(_dynamo(), "counters", {})
    return {
        str(group): {str(name): int(count) for name, count in values.items()}
        for group, values in counters.items()
    }


def _seconds(metric: Any, in_us: str, in_s: str) -> float:
    micros = getattr(metric, in_us, None)
    return float(getattr(metric, in_s, None) or 0.0) if micros is None else micros / 1e6


def seconds_of(metric: object) -> float:
    """Seconds that one compilation took, by its record in the structured log."""
    known = metric if isinstance(metric, dict) else {}
    micros, seconds = (known.get(name) for name in TAKEN)
    return float(seconds or 0.0) if micros is None else micros / 1e6


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else text
