"""Fit what the profiler costs the host: `python tools/fit_overhead.py FOLDER`.

FOLDER has traces and truth.json as for `benchmarks/predictions.py`. Pairs that are held out there
are left out here. Prints the constants of `foretrace.trace.replay.COST` with the least error.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import foretrace as ft
from foretrace.look.fixes import predicted
from foretrace.trace import replay
from foretrace.trace.replay import ProfilerCost, ReplayGraph
from foretrace.trace.trace import Trace

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from predictions import HELD_OUT

OPS, CALLS, STEPS = (1_000, 1_500, 2_000, 2_500), (3_000, 4_500, 6_000, 7_500), (0, 30_000, 60_000)
MOST = 0.7  # that one recording counts, as a logarithm


def known(folder: Path) -> Iterator[tuple[Trace, ReplayGraph, float]]:
    """Graphs of steps whose time without the profiler is known."""
    truth = json.loads((folder / "truth.json").read_text())
    for name in sorted(set(truth) - HELD_OUT):
        for side in ("bad", "good"):
            trace = ft.open(folder / f"{name}_{side}.json.gz")
            if found := predicted(trace):
                yield trace, found.step.graph, truth[name][f"{side}_ms"] * 1e6


def error(rows: list[tuple[Trace, ReplayGraph, float]], cost: ProfilerCost) -> tuple[float, float]:
    """Mean and median error of the predicted steps, as logarithms."""
    off = [
        abs(np.log(replay.run(replay.without_profiler(trace, graph, cost)) / ns))
        for trace, graph, ns in rows
    ]
    return float(np.mean(np.minimum(off, MOST))), float(np.median(off))


if __name__ == "__main__":
    rows = list(known(Path(sys.argv[1])))
    costs = [
        ProfilerCost(op, call, replay.COST.python, step)
        for op, call, step in itertools.product(OPS, CALLS, STEPS)
    ]
    best = min(costs, key=lambda cost: error(rows, cost))
    print(f"{len(rows)} recordings: {best}, mean and median error {error(rows, best)}")
    print(f"as it is: {replay.COST}, {error(rows, replay.COST)}")
