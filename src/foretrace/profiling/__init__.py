"""Captures traces with torch.profiler: schedule, warm-up, one region per step, and a run record
beside each trace.

Needs torch and the standard library alone, so that a GPU machine needs nothing else installed.

    with foretrace.capture("traces/run", steps=3, warmup=3) as prof:
        for batch in batches:
            train(batch)
            prof.step()

    torch.profiler.profile(on_trace_ready=foretrace.handler("traces/"))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from foretrace.errors import MissingError

if TYPE_CHECKING:
    from foretrace.profiling.window import Capture

__all__ = ["capture", "handler", "need_torch"]


def capture(
    path: str | os.PathLike[str],
    *,
    steps: int | None = 3,
    warmup: int = 3,
    wait: int = 1,
    region: str | None = None,
    shapes: bool = True,
    stacks: bool = False,
    memory: bool = False,
    modules: bool = False,
    overwrite: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> Capture:
    """Record `steps` steps of the loop inside the `with` block to `path` (without a suffix:
    `.json.gz`).

    `warmup` steps run first without any profiler, then `wait` more, then one while the profiler
    warms up; call `step()` on the result at the end of each. `steps=None` records the whole block.
    `region` puts a `record_function` range around each step. `shapes` lets the reader compute flops
    and bytes and slows the host a little: turn it off to read host times. `stacks`, `memory` and
    `modules` record Python stacks, allocations and the module of each op. `facts` are added to the
    run record. The result is a `torch.profiler.profile` with `trace` and `record_file`.
    """
    need_torch()
    from foretrace.profiling.window import Capture

    return Capture(
        path,
        steps=steps,
        warmup=warmup,
        wait=wait,
        region=region,
        shapes=shapes,
        stacks=stacks,
        memory=memory,
        modules=modules,
        overwrite=overwrite,
        facts=facts,
    )


def handler(folder: str | os.PathLike[str], *, name: str = "run") -> Callable[[object], None]:
    """An `on_trace_ready` that writes `folder/name.json.gz` (numbered when taken) and its run
    record.
    """
    need_torch()
    from foretrace.profiling.ready import trace_handler

    return trace_handler(folder, name=name)


def need_torch() -> None:
    """Raise the error that names the install command where torch is missing."""
    try:
        import torch  # noqa: F401
    except ImportError as problem:
        raise MissingError("capturing needs torch: pip install torch") from problem
