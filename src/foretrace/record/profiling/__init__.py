"""Captures traces with torch.profiler: schedule, warm-up, one region per step, and a run record.

Needs torch and the standard library alone, so that a GPU machine needs nothing else installed.

    with foretrace.capture("traces/run", steps=3, warmup=3) as prof:
        for batch in batches:
            train(batch)
            prof.step()

    torch.profiler.profile(on_trace_ready=foretrace.handler("traces/"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.base.errors import MissingError

if TYPE_CHECKING:
    from foretrace.record.profiling.run_record import handler
    from foretrace.record.profiling.window import Capture as capture

__all__ = ["capture", "handler", "need_torch"]


def __getattr__(name: str) -> object:
    """`capture` and `handler` import torch, so they are imported when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need_torch()
    from foretrace.record.profiling import run_record, window

    return window.Capture if name == "capture" else run_record.handler


def need_torch() -> None:
    """Raise the error that names the install command where torch is missing."""
    try:
        import torch  # noqa: F401
    except ImportError as problem:
        raise MissingError("capturing needs torch: pip install torch") from problem
