"""An `on_trace_ready` that writes the trace and a run record, for a user's own profiler."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from foretrace.profiling.export import export, make_folder, trace_path
from foretrace.profiling.record import TORCH_NAMES, RunRecord


def handler(folder: str | os.PathLike[str], *, name: str = "run") -> Callable[[object], None]:
    """For `torch.profiler.profile`, Accelerate's `ProfileKwargs`, Lightning's `PyTorchProfiler`.

    Each recording goes to `folder/name.json.gz`, then `name_2`, `name_3`, ...; nothing is replaced.
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
