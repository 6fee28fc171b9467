"""The run record: a small JSON file beside each trace that says what the trace itself cannot.

`run.json.gz` has `run.run.json`. Every key is always there; what is not known is null. The keys are
described in `docs/capture.md`; `schema` rises when one changes its meaning.
"""

from __future__ import annotations

import json
import os
import resource
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import foretrace
from foretrace.profiling.compiling import CompileWatch
from foretrace.profiling.environment import card, clocks, command_line, environment
from foretrace.profiling.export import record_path

KIND = "foretrace-run"


@dataclass(slots=True)
class Timing:
    """Nanoseconds per call (or step). `wall` and `host` are measured without the profiler,
    `profiled_host` with it.

    `wall` ends with the device idle; the two `host` times end when the host has issued its work,
    since a wait inside the recording would change what is recorded. Their ratio is what the
    profiler costs the host.
    """

    first_call_ns: int | None = None
    wall_ns: int | None = None
    wall_spread: float | None = None
    host_ns: int | None = None
    profiled_host_ns: int | None = None
    calls: int = 0

    def as_json(self) -> dict[str, Any]:
        overhead = None
        if self.host_ns and self.profiled_host_ns:
            overhead = round(self.profiled_host_ns / self.host_ns - 1, 4)
        return {
            "first_call_ns": self.first_call_ns,
            "wall_ns_per_call": self.wall_ns,
            "wall_spread": self.wall_spread,
            "host_ns_per_call": self.host_ns,
            "profiled_host_ns_per_call": self.profiled_host_ns,
            "profiler_overhead": overhead,
            "calls_timed": self.calls,
        }


@dataclass(slots=True)
class RunRecord:
    """Collects what a run record needs while the run goes on; `write` puts it beside the trace."""

    profile: Mapping[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    compiling: CompileWatch = field(default_factory=CompileWatch)
    clocks_before: dict[str, Any] = field(default_factory=lambda: clocks())
    error: str | None = None
    # what somebody who reads the trace should know: it ended early, it is the whole script
    note: str | None = None

    def as_json(self, trace: Path) -> dict[str, Any]:
        after = clocks()
        driver = after.get("driver") or self.clocks_before.get("driver")
        card_now = card()
        return {
            "schema": 1,
            "kind": KIND,
            "foretrace": foretrace.__version__,
            "trace": trace.name,
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": command_line(),
            **environment(),
            "device": None if card_now is None else {**card_now, "driver": driver},
            "clocks": {"before": self.clocks_before or None, "after": after or None},
            "seed": {"torch": torch.initial_seed(), "hash": os.environ.get("PYTHONHASHSEED")},
            "profile": dict(self.profile),
            "timing": self.timing.as_json(),
            "compile": self.compiling.report(),
            "memory": peak_memory(),
            "error": self.error,
            "note": self.note,
            **self.facts,
        }

    def write(self, trace: Path) -> Path:
        """Write the record of `trace`; it is replaced together with its trace, never by another
        one's.
        """
        path = record_path(trace)
        with tempfile.TemporaryDirectory(prefix=".foretrace-", dir=path.parent) as folder:
            ready = Path(folder) / path.name
            ready.write_text(json.dumps(self.as_json(trace), indent=1) + "\n", encoding="utf-8")
            os.replace(ready, path)
        return path


def peak_memory() -> dict[str, int | None]:
    """Peak bytes: tensors on the device since the last reset of torch's statistics, and the process
    on the host.
    """
    on_card = torch.cuda.is_available() and torch.cuda.is_initialized()
    return {
        "peak_device_bytes": torch.cuda.max_memory_allocated() if on_card else None,
        "peak_reserved_bytes": torch.cuda.max_memory_reserved() if on_card else None,
        # Linux counts kilobytes
        "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
