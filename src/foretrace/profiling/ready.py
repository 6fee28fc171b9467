"""An `on_trace_ready` that writes the trace and a run record, for a profiler that somebody else
drives.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from foretrace.profiling.export import export, make_folder, trace_path
from foretrace.profiling.record import RunRecord

_OPTIONS = {
    "shapes": "record_shapes",
    "stacks": "with_stack",
    "memory": "profile_memory",
    "modules": "with_modules",
}


def trace_handler(folder: str | os.PathLike[str], *, name: str = "run") -> Callable[[Any], None]:
    """For `torch.profiler.profile(on_trace_ready=...)`, Accelerate's `ProfileKwargs` and
    Lightning's `PyTorchProfiler`.

    Each window goes to `folder/name.json.gz`, then `name_2`, `name_3`, ...; nothing is replaced.
    """
    target = trace_path(os.path.join(os.fspath(folder), name))
    record = RunRecord({})

    def write(profiler: Any) -> None:
        make_folder(target.parent)  # hours may have passed since the first look
        record.profile = profile_options(profiler)
        record.write(export(profiler, target))

    return write


def profile_options(profiler: Any) -> dict[str, Any]:
    """What somebody else's profiler was told to record, in the words of our own options."""
    return {ours: bool(getattr(profiler, theirs, False)) for ours, theirs in _OPTIONS.items()}
