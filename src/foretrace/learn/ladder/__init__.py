"""The ladder: from one matrix product to a training step, one file per rung in `ladder.rungs`.

`run` runs one rung, `climb` all of them to mark the articles' claims. Listing rungs needs no torch:
only `Rung.build` imports it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from foretrace.learn.ladder.rungs import ORDER, rung, rungs
from foretrace.record.profiling import need_torch
from foretrace.schema.rung import Choice, Rung

if TYPE_CHECKING:
    from foretrace.record.profiling.window import Capture

__all__ = ["ORDER", "run", "rung", "rungs"]


def run(
    rung: Rung, choice: Choice, folder: str | os.PathLike[str] = "traces", **options: Any
) -> Capture:
    """Run one rung and capture it into `folder`; `options` are those of `capture_call`."""
    need_torch()
    from foretrace.learn.ladder.running import capture_rung, refusals

    with refusals(rung.name):
        return capture_rung(rung, choice, folder, **options)
