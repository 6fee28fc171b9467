"""What torch.compile did between two moments: seconds, frames, graph breaks, recompilations, and
where it gave up.

Dynamo keeps these in `counters` and in a list of compilation metrics whose fields have changed from
version to version (torch 2.6 to 2.13 are known), so every field is asked for and none is taken for
granted.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CompileWatch:
    """Remembers where Dynamo's counters stood; `report()` says what came since."""

    begun_s: float = field(default_factory=time.time)
    before: dict[str, dict[str, int]] = field(default_factory=lambda: _counters())

    def report(self) -> dict[str, Any]:
        """`seconds`, `frames`, `graphs`, `graph_breaks` {reason: count}, `recompiles`, `gave_up`
        [reason]; zero in eager runs.

        A frame that Dynamo gave up on (its recompile limit, say) runs eagerly from then on, and
        nothing else tells.
        """
        metrics = [metric for metric in _metrics() if _start_s(metric) >= self.begun_s]
        failures = [getattr(metric, "fail_reason", None) for metric in metrics]
        reasons = [
            getattr(metric, "recompile_reason", None)
            for metric, why in zip(metrics, failures, strict=True)
            if not why
        ]
        return {
            "seconds": round(sum(_seconds(metric) for metric in metrics), 6),
            "frames": self._since("frames", "ok"),
            "graphs": self._since("stats", "unique_graphs"),
            "graph_breaks": self._graph_breaks(),
            "recompiles": [_first_line(str(reason)) for reason in reasons if reason],
            "gave_up": [_first_line(str(why)) for why in failures if why],
        }

    def _graph_breaks(self) -> dict[str, int]:
        breaks: Counter[str] = Counter()
        for why in _counters().get("graph_break", {}):
            breaks[_first_line(why)] += self._since("graph_break", why)
        return dict(+breaks)

    def _since(self, group: str, name: str) -> int:
        return _counters().get(group, {}).get(name, 0) - self.before.get(group, {}).get(name, 0)


def _dynamo() -> Any:
    # Never imported for this: if nothing imported Dynamo, nothing was compiled, and the import
    # takes a second.
    return sys.modules.get("torch._dynamo.utils")


def _counters() -> dict[str, dict[str, int]]:
    counters = getattr(_dynamo(), "counters", {})
    return {
        str(group): {str(name): int(count) for name, count in values.items()}
        for group, values in counters.items()
    }


def _metrics() -> list[Any]:
    listed = getattr(_dynamo(), "get_compilation_metrics", None)
    return list(listed()) if listed else []


def _start_s(metric: Any) -> float:
    micros = getattr(metric, "start_time_us", None)
    return micros / 1e6 if micros is not None else float(getattr(metric, "start_time", None) or 0.0)


def _seconds(metric: Any) -> float:
    micros = getattr(metric, "duration_us", None)
    return (
        micros / 1e6
        if micros is not None
        else float(getattr(metric, "entire_frame_compile_time_s", None) or 0.0)
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else text
