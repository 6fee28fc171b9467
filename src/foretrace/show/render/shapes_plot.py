"""The document of `foretrace shapes` as a plot: bars for the stalls, lines for the warm calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foretrace.base.errors import MissingError, UsageError
from foretrace.schema.documents.shapes import ShapesDocument
from foretrace.show.render.shapes import labels

FLOOR_MS = 1e-3  # a logarithmic scale has no zero, and a stall may be none


def need_matplotlib(path: Path) -> None:
    """Refuse a missing matplotlib or a wrong file name before anything is measured."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise MissingError("the plot needs matplotlib: pip install 'foretrace[bench]'") from error
    known = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.lstrip(".") not in known:
        raise UsageError(f"{path}: a plot ends in .svg or .png")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: no folder {path.parent}: create it first")


def plot_shapes(document: ShapesDocument, path: Path) -> None:
    """Draw into `path` (.svg, .png). Both scales are logarithmic: stalls differ by a thousand."""
    need_matplotlib(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    _stalls(above, document)
    _warm_calls(below, document)
    below.set_xticks(range(len(document.shapes)), labels(document), fontsize=8)
    below.set_xlabel(f"{' x '.join(document.shapes[0])}, in the order visited", fontsize=9)
    legend = below.get_legend_handles_labels()
    figure.legend(*legend, fontsize=8, ncols=6, loc="outside lower center")
    where = f"{document.device}, torch {document.torch}"
    figure.suptitle(f"{document.rung} over shapes, {where}", fontsize=10)
    figure.savefig(path)


def _stalls(axis: Any, document: ShapesDocument) -> None:
    width = 0.8 / max(len(document.contenders), 1)
    for index, entry in enumerate(document.contenders):
        places = [place + (index + 0.5) * width - 0.4 for place in range(len(entry.visits))]
        stalls = [max(visit.stall_ns / 1e6, FLOOR_MS) for visit in entry.visits]
        axis.bar(places, stalls, width, color=f"C{index}")
    axis.set_yscale("log")
    axis.set_ylabel("stall, ms", fontsize=9)


def _warm_calls(axis: Any, document: ShapesDocument) -> None:
    for index, entry in enumerate(document.contenders):
        times = [(visit.wall_ns or 0) / 1e3 for visit in entry.visits]
        axis.plot(times, "o-", label=entry.name, color=f"C{index}")
    axis.set_yscale("log")
    axis.set_ylabel("warm call, us", fontsize=9)
