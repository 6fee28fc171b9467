"""The run record: a small JSON file beside each trace with what the trace itself does not hold.

`run.json.gz` has `run.run.json`. Every key is always there; an unknown value is null. The keys are
described in `docs/capture.md`; `schema` rises when one changes its meaning.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from foretrace.base import files
from foretrace.base.private import cleaned, hide_secrets
from foretrace.base.version import __version__
from foretrace.record.profiling.compiling import CompileWatch
from foretrace.record.profiling.environment import card, clocks, command_line, environment, on_cuda
from foretrace.record.profiling.export import export, make_folder, record_path, trace_path

KIND = "foretrace-run"
# Our options of a profiler, and torch's names for them.
TORCH_NAMES = {
    "shapes": "record_shapes",
    "stacks": "with_stack",
    "memory": "profile_memory",
    "modules": "with_modules",
}


@dataclass(slots=True)
class CallTimes:
    """Nanoseconds per call (or step); only `profiled_host` is measured with the profiler.

    `wall` ends with the device idle. Both `host` times end when the host has launched its work: a
    wait inside the recording would change what is recorded. Their ratio is the profiler's overhead.
    """

    first_call_ns: int | None = None
    wall_ns_per_call: int | None = None
    wall_spread: float | None = None
    host_ns_per_call: int | None = None
    profiled_host_ns_per_call: int | None = None
    calls_timed: int = 0

    def as_json(self) -> dict[str, Any]:
        """The `timing` part of the record."""
        overhead = None
        if self.host_ns_per_call and self.profiled_host_ns_per_call:
            overhead = round(self.profiled_host_ns_per_call / self.host_ns_per_call - 1, 4)
        return {**asdict(self), "profiler_overhead": overhead}


@dataclass(slots=True)
class RunRecord:
    """Collects the record during a run; `note` is what a reader of the trace should know."""

    profile: Mapping[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    timing: CallTimes = field(default_factory=CallTimes)
    compiling: CompileWatch = field(default_factory=CompileWatch)
    clocks_before: dict[str, Any] = field(default_factory=clocks)
    error: str | None = None
    note: str | None = None

    def as_json(self, trace: Path) -> dict[str, Any]:
        """The record of `trace`, written now."""
        after, device = clocks(), card()
        driver = after.get("driver") or self.clocks_before.get("driver")
        return {
            "schema": 1,
            "kind": KIND,
            "foretrace": __version__,
            "trace": trace.name,
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": command_line(),
            **environment(),
            "device": None if device is None else {**device, "driver": driver},
            "clocks": {"before": self.clocks_before or None, "after": after or None},
            "seed": {"torch": torch.initial_seed(), "hash": os.environ.get("PYTHONHASHSEED")},
            "profile": dict(self.profile),
            "timing": self.timing.as_json(),
            "compile": self.compiling.report(),
            "memory": _peak_memory(),
            "error": self.error,
            "note": self.note,
            **self.facts,
        }

    def write(self, trace: Path) -> Path:
        """Write the record of `trace` without secrets, in the place of an earlier one."""
        path = record_path(trace)
        stored = cleaned(self.as_json(trace), hide_secrets)
        files.write_text(path, json.dumps(stored, indent=1) + "\n")
        return path


def handler(folder: str | os.PathLike[str], *, name: str = "run") -> Callable[[object], None]:
    """An `on_trace_ready` that writes each trace and its record, for a user's own profiler.

    For `torch.profiler.profile`, Accelerate's `ProfileKwargs`, Lightning's `PyTorchProfiler`. Each
    recording goes to `folder/name.json.gz`, then `name_2`, `name_3`, ...; nothing is replaced.
    """
    target = trace_path(os.path.join(os.fspath(folder), name))
    record = RunRecord({})

    def write(profiler: object) -> None:
        make_folder(target.parent)  # hours may have passed since `trace_path` made it
        record.profile = profile_options(profiler)
        record.write(export(profiler, target))

    return write


def profile_options(profiler: Any) -> dict[str, Any]:
    """What another profiler records, under the names of our options."""
    return {ours: bool(getattr(profiler, theirs, False)) for ours, theirs in TORCH_NAMES.items()}


def _peak_memory() -> dict[str, int | None]:
    """Peak bytes of torch's allocator since the last reset, and of the process on the host."""
    return {
        "peak_device_bytes": torch.cuda.max_memory_allocated() if on_cuda() else None,
        "peak_reserved_bytes": torch.cuda.max_memory_reserved() if on_cuda() else None,
        # Linux counts kilobytes
        "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
