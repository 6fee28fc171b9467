"""The shape question as a picture: a group of bars for the stalls at each shape, and a line for the
warm calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foretrace.errors import MissingError, UsageError
from foretrace.render.shapes import labels

FLOOR_MS = 1e-3  # a logarithmic scale has no zero, and a stall may be none


def need_matplotlib(path: Path) -> None:
    """Say what is missing, or wrong with the file's name, before anything is measured."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise MissingError("the plot needs matplotlib: pip install 'foretrace[bench]'") from error
    known = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.lstrip(".") not in known:
        raise UsageError(f"{path}: a plot ends in .svg or .png")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")


def plot_shapes(document: dict[str, Any], path: Path) -> None:
    """Draw into `path` (.svg, .png). Both scales are logarithmic: stalls differ by a thousand."""
    need_matplotlib(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    _stalls(above, document)
    _warm_calls(below, document)
    below.set_xticks(range(len(document["shapes"])), labels(document), fontsize=8)
    below.set_xlabel(f"{' x '.join(document['shapes'][0])}, in the order visited", fontsize=9)
    figure.legend(
        *below.get_legend_handles_labels(), fontsize=8, ncols=6, loc="outside lower center"
    )
    figure.suptitle(
        f"{document['rung']} over shapes, {document['device']}, torch {document['torch']}",
        fontsize=10,
    )
    figure.savefig(path)


def _stalls(axis: Any, document: dict[str, Any]) -> None:
    columns = document["contenders"]
    width = 0.8 / max(len(columns), 1)
    for index, entry in enumerate(columns):
        places = [place + (index + 0.5) * width - 0.4 for place in range(len(entry["visits"]))]
        axis.bar(
            places,
            [max(visit["stall_ns"] / 1e6, FLOOR_MS) for visit in entry["visits"]],
            width,
            color=f"C{index}",
        )
    axis.set_yscale("log")
    axis.set_ylabel("stall, ms", fontsize=9)


def _warm_calls(axis: Any, document: dict[str, Any]) -> None:
    for index, entry in enumerate(document["contenders"]):
        axis.plot(
            [visit["wall_ns"] / 1e3 for visit in entry["visits"]],
            "o-",
            label=entry["name"],
            color=f"C{index}",
        )
    axis.set_yscale("log")
    axis.set_ylabel("warm call, us", fontsize=9)
