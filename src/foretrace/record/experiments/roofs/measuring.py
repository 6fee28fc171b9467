"""Measures figures one by one: a failure costs one figure, and what is measured is kept at once."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from typing import Any

from foretrace.record.experiments.roofs.figure import Figure

Found = dict[str, dict[str, dict[str, Any]]]
SAY_EVERY_S = 8.0


def measured(
    figures: Iterable[Figure],
    keep: Callable[[Found], None],
    say: Callable[[str], None],
    budget_s: float = 600.0,
) -> Found:
    """Figures by group and name; `error` instead of a figure that could not be measured."""
    found: Found = {}
    began = said = kept = time.monotonic()
    for figure in figures:
        now = time.monotonic()
        if now - said > SAY_EVERY_S:
            said = now
            say(f"{now - began:5.0f} s  {figure.group}: {figure.name}")
        if now - kept > SAY_EVERY_S:
            kept = now
            keep(found)
        late = now - began > budget_s
        result = {"error": "no time was left"} if late else _one(figure)
        found.setdefault(figure.group, {})[figure.name] = result
    keep(found)
    return found


def _one(figure: Figure) -> dict[str, Any]:
    start = time.time()
    try:
        result = figure.measure()
    except Exception as problem:  # noqa: BLE001 - the next figure may still be measured
        result = {"error": f"{type(problem).__name__}: {problem}"[:500]}
        gc.collect()  # what the failed one held on the GPU
    return {**result, "at": round(start, 2), "seconds": round(time.time() - start, 3)}
