"""The ladder: from one matmul to a training step, the rungs of `rungs.toml`.

`run` captures one rung, `climb` all of them to mark the articles' claims. Listing rungs needs no
torch: only `run` and `Rung.build` import it.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.learn.ladder.rungs import ORDER, file_name, rung, rungs
from foretrace.record.profiling import need_torch
from foretrace.record.rung import Choice, Rung

if TYPE_CHECKING:
    from foretrace.record.profiling.window import Capture

__all__ = ["ORDER", "run", "rung", "rungs"]


def run(
    rung: Rung, choice: Choice, folder: str | os.PathLike[str] = "traces", **options: Any
) -> Capture:
    """Capture one rung into `folder`; `options` are those of `capture_call`."""
    need_torch()
    import torch

    from foretrace.record.experiments.machine import prepare
    from foretrace.record.profiling.window import capture_call

    setup = prepare(rung, choice)
    # A page of C++ frames about bf16 on such a CPU: it works, slowly.
    warnings.filterwarnings("ignore", message="mkldnn_matmul failed")
    torch.manual_seed(choice.seed)
    built = rung.build(setup)
    ran = {
        "name": rung.name,
        "variant": setup.variant,
        "compiled": choice.compiles,
        "mode": choice.mode if choice.compiles else None,
        "device": setup.device,
        "dtype": setup.dtype,
        "seed": choice.seed,
        "region": built.region,
        "options": dict(setup.values),
        "facts": dict(built.facts),
    }
    path = Path(folder) / file_name(rung, setup, choice)
    return capture_call(built.call, path, region=built.region, facts={"rung": ran}, **options)
