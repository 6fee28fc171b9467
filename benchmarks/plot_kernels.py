"""Draw results of `foretrace lab bench`: each contender's device time over the best peer's.

    python benchmarks/plot_kernels.py benchmarks/results/h200-kernels-sweep.json -o sweep.svg

Needs matplotlib (`pip install matplotlib`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from foretrace.base.files import replacing
from foretrace.record.lab_documents import BenchDocument, BenchRow, joined_bench, read_bench

MOST_BARS = 16  # sizes of a subject that have room for bars and their names


def plot_bench(results: BenchDocument, path: Path) -> None:
    """One panel per subject: each contender's device time over the best peer's, by size."""
    subjects = list(dict.fromkeys(row.subject for row in results.rows))
    names = list(dict.fromkeys(name for row in results.rows for name in row.timings))
    colours = {name: "black" if name == "ours" else f"C{index}" for index, name in enumerate(names)}
    figure = Figure(figsize=(11, 2.4 * len(subjects) + 1), layout="constrained")
    panels = figure.subplots(len(subjects), 1, squeeze=False)[:, 0]
    for axis, subject in zip(panels, subjects, strict=True):
        shown = [row for row in results.rows if row.subject == subject]
        (_panel if len(shown) <= MOST_BARS else _sweep_panel)(axis, shown, colours)
        axis.set_title(subject, fontsize=9, loc="left")
    patches = [Patch(color=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=patches, fontsize=8, ncols=len(names), loc="outside lower center")
    figure.suptitle(f"device time over the best peer's, {results.environment['card']}", fontsize=10)
    with replacing(path) as draft:
        figure.savefig(draft)


def _panel(axis: Any, rows: list[BenchRow], colours: dict[str, str]) -> None:
    for place, row in enumerate(rows):
        width = 0.8 / len(row.timings)
        for index, (name, times) in enumerate(row.timings.items()):
            relative = times.device / row.timings[row.best_peer("device") or name].device
            at = place + (index + 0.5) * width - 0.4
            axis.bar(at, relative, width, color=colours[name])
    axis.axhline(1.0, color="grey", linewidth=0.8)
    axis.set_xticks(range(len(rows)), [row.size.replace("x", "\n") for row in rows], fontsize=7)
    axis.set_ylim(0, 2)


def _sweep_panel(axis: Any, rows: list[BenchRow], colours: dict[str, str]) -> None:
    """A dot per contender and size, over the rows; a ratio of two is as far from 1 as a half."""
    for name, colour in colours.items():
        timed = [row for row in rows if name in row.timings and row.best_peer("device")]
        best = [row.timings[row.best_peer("device") or name].device for row in timed]
        times = [row.timings[name].device for row in timed]
        relative = [mine / other for mine, other in zip(times, best, strict=True)]
        axis.plot([row.m for row in timed], relative, "o", color=colour, markersize=4, alpha=0.7)
    axis.axhline(1.0, color="grey", linewidth=0.8)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter("{x:g}")
    axis.set_xlabel("rows", fontsize=8)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("files", nargs="+", type=Path)
    options.add_argument("-o", "--output", type=Path, required=True)
    given = options.parse_args()
    plot_bench(joined_bench(map(read_bench, given.files)), given.output)
