"""Drawing a benchmark: a table for people, and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foretrace.errors import MissingError
from foretrace.kernels.bench.results import Results, Row

_HEAD = (
    "size",
    "contender",
    "device us",
    "",
    "call us",
    "error",
    "TB/s",
    "TFLOP/s",
    "first call ms",
    "gain",
)


def table(results: Results) -> str:
    """Everything measured, one line per contender; `gain` is the best peer's time over ours, device
    and call.
    """
    where = ", ".join(f"{key} {value}" for key, value in results.environment.items())
    lines = [
        where,
        f"ceilings: copy {results.copy_tbps:.2f} TB/s, bf16 matrix product "
        f"{results.matmul_tflops:.0f} TFLOP/s",
        f"own kernels ready after {results.warm_up_s:.1f} s",
    ]
    subject = ""
    for row in results.rows:
        if row.subject != subject:
            subject = row.subject
            lines += ["", subject, _line(_HEAD)]
        lines += [_line(cells) for cells in _cells(row)]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, timing in row.timings.items():
        gain = ""
        if name == "ours":
            device, call = row.gain("device"), row.gain("call")
            gain = f"{device:.3f} {call:.3f}" if device and call else ""
        rows.append(
            (
                row.size, name, f"{timing.device:.1f}", f"({timing.device_low:.1f}-{timing.device_high:.1f})",
                f"{timing.call:.1f}", f"{timing.error:.1e}", f"{row.bytes / timing.device / 1e6:.2f}",
                f"{row.flops / timing.device / 1e6:.0f}" if row.flops else "", f"{timing.first_call_ms:.0f}", gain,
            )
        )  # fmt: skip
    rows += [
        (row.size, name, why, "", "", "", "", "", "", "") for name, why in row.left_out.items()
    ]
    return rows


def _line(cells: tuple[str, ...]) -> str:
    widths = (16, 14, 10, 17, 10, 8, 6, 8, 13, 11)
    left = 2
    text = [
        cell.ljust(w) if i < left else cell.rjust(w)
        for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
    ]
    return " ".join(text).rstrip()


def plot(results: Results, path: Path) -> None:
    """One panel per subject: each contender's device time over the best peer's, by size. Below 1 is
    faster.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise MissingError("the plot needs matplotlib: pip install 'foretrace[bench]'") from error
    subjects = list(dict.fromkeys(row.subject for row in results.rows))
    names = list(dict.fromkeys(name for row in results.rows for name in row.timings))
    colours = {name: "black" if name == "ours" else f"C{index}" for index, name in enumerate(names)}
    figure = Figure(figsize=(11, 2.4 * len(subjects) + 1), layout="constrained")
    for axis, subject in zip(
        figure.subplots(len(subjects), 1, squeeze=False)[:, 0], subjects, strict=True
    ):
        _panel(axis, [row for row in results.rows if row.subject == subject], colours)
        axis.set_title(subject, fontsize=9, loc="left")
    patches = [Patch(color=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=patches, fontsize=8, ncols=len(names), loc="outside lower center")
    figure.suptitle(f"device time over the best peer's, {results.environment['card']}", fontsize=10)
    figure.savefig(path)


def _panel(axis: Any, rows: list[Row], colours: dict[str, str]) -> None:
    for place, row in enumerate(rows):
        width = 0.8 / len(row.timings)
        for index, name in enumerate(row.timings):
            axis.bar(
                place + (index + 0.5) * width - 0.4,
                _relative(row, name),
                width,
                color=colours[name],
            )
    axis.axhline(1.0, color="grey", linewidth=0.8)
    axis.set_xticks(range(len(rows)), [row.size.replace("x", "\n") for row in rows], fontsize=7)
    axis.set_ylim(0, 2)


def _relative(row: Row, name: str) -> float:
    peer = row.best_peer("device") or name
    return row.timings[name].device / row.timings[peer].device
