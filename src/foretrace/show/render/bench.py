"""Drawing a benchmark: a table for a terminal, and a plot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from foretrace.base.errors import MissingError
from foretrace.base.files import replacing
from foretrace.schema.documents.bench import BenchDocument, BenchRow

_COLUMNS = {
    "size": 16, "contender": 14, "device us": 10, "": 17, "call us": 10, "error": 8, "TB/s": 6,
    "TFLOP/s": 8, "first call ms": 13, "gain": 11,
}  # fmt: skip
_LEFT = 2  # the columns of words
MOST_BARS = 16  # sizes of a subject that have room for bars and their names


def bench_text(results: BenchDocument) -> str:
    """One line per contender; `gain` is the best peer's time over ours, device and call."""
    copy, matmul = f"{results.copy_tbps:.2f} TB/s", f"{results.matmul_tflops:.0f} TFLOP/s"
    lines = [
        ", ".join(f"{key} {value}" for key, value in results.environment.items()),
        f"ceilings: copy {copy}, bf16 matmul {matmul}",
        f"own kernels ready after {results.warm_up_s:.1f} s",
    ]
    for subject, rows in groupby(results.rows, lambda row: row.subject):
        shown = list(rows)
        lines += ["", subject, _line(tuple(_COLUMNS))]
        lines += [_line(cells) for row in shown for cells in _cells(row)]
        lines += _least(shown)
    return "\n".join(lines) + "\n"


def _least(rows: list[BenchRow]) -> Iterator[str]:
    """The size at which ours does worst, if there are several."""
    for measure in ("device", "call"):
        gains = [(gain, row.size) for row in rows if (gain := row.gain(measure)) is not None]
        if len(gains) > 1:
            gain, size = min(gains)
            yield f"least gain over the best peer, {measure} time: {gain:.3f} at {size}"


def _cells(row: BenchRow) -> Iterator[tuple[str, ...]]:
    device, call = row.gain("device"), row.gain("call")
    for name, times in row.timings.items():
        yield (
            row.size,
            name,
            f"{times.device:.1f}",
            f"({times.device_low:.1f}-{times.device_high:.1f})",
            f"{times.call:.1f}",
            f"{times.error:.1e}",
            f"{row.bytes / times.device / 1e6:.2f}",
            f"{row.flops / times.device / 1e6:.0f}" if row.flops else "",
            f"{times.first_call_ms:.0f}",
            f"{device:.3f} {call:.3f}" if name == "ours" and device and call else "",
        )
    for name, why in row.left_out.items():
        yield (row.size, name, why, *[""] * (len(_COLUMNS) - 3))


def _line(cells: tuple[str, ...]) -> str:
    sized = enumerate(zip(cells, _COLUMNS.values(), strict=True))
    text = [cell.ljust(size) if at < _LEFT else cell.rjust(size) for at, (cell, size) in sized]
    return " ".join(text).rstrip()


def plot_bench(results: BenchDocument, path: Path) -> None:
    """One panel per subject: each contender's device time over the best peer's, by size."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise MissingError("the plot needs matplotlib: pip install 'foretrace[bench]'") from error
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
