"""One line in a training script: a callback for Transformers, Lightning or Accelerate, or a loop.

    from foretrace.hooks import TrainerCallback
    Trainer(..., callbacks=[TrainerCallback()])

    for batch in foretrace.hooks.watch(loader): ...

A class of another package is made when its name is first used: that package may be missing.
"""

from __future__ import annotations

from typing import Any

from foretrace.record.hooks import MAKERS, StepRecording, watch

__all__ = ["AccelerateTracker", "LightningCallback", "StepRecording", "TrainerCallback", "watch"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name not in MAKERS:
        raise AttributeError(f"module 'foretrace.hooks' has no attribute {name!r}")
    globals()[name] = made = MAKERS[name]()
    return made
