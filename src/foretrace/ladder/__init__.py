"""The ladder: from one matrix product to a training step, one file per rung in `ladder.rungs`.

`run` runs one rung. `climb_recorded` and `climb_here` climb all rungs and mark the articles'
claims. Listing rungs needs no torch: only `Rung.build` imports it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from foretrace.ladder.rungs import ORDER, rung, rungs
from foretrace.profiling import need_torch
from foretrace.schema.rung import Choice, Rung

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from foretrace.profiling.window import Capture
    from foretrace.schema.documents.ladder import LadderDocument

__all__ = ["ORDER", "climb_here", "climb_recorded", "run", "rung", "rungs"]


def run(
    rung: Rung, choice: Choice, folder: str | os.PathLike[str] = "traces", **options: Any
) -> Capture:
    """Run one rung and capture it into `folder`; `options` are those of `capture_call`."""
    need_torch()
    from foretrace.ladder.running import capture_rung, refusals

    with refusals(rung.name):
        return capture_rung(rung, choice, folder, **options)


def climb_recorded(card: str = "h200", only: Sequence[str] = ()) -> LadderDocument:
    """Mark the claims of the rungs in `only`, or of all, on recorded traces; needs no torch."""
    from foretrace.ladder import climb

    return climb.climb_recorded(card, only)


def climb_here(
    folder: Path, device: str = "auto", only: Sequence[str] = (), say: Callable[[str], None] = print
) -> LadderDocument:
    """Run the rungs on this machine, keep the traces in `folder`, and mark the claims on them."""
    need_torch()
    from foretrace.ladder import climb

    return climb.climb_here(folder, device, only, say)
