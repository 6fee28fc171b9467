"""What one region launches in several traces, place by place: op, launch call and time of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from foretrace.base.units import time_text
from foretrace.show.overview.page import LaunchRow, LaunchSequence
from foretrace.show.render.look_page import kernel_times, op_path
from foretrace.show.render.terminal import Section

LETTERS = "ABCDEFGH"  # of the traces, as `compare` names them
_HEAD = ["place", "", "kernel", "op", "launch", "time"]


def beside_page(
    region: str, found: Sequence[tuple[str, LaunchSequence]], layers: Sequence[str] = ()
) -> list[Section]:
    """One table: the places of the first trace, and at each of them what every trace launches.

    `layers` names the matmuls of the first trace in launch order.
    """
    titles, sequences = zip(*found, strict=True)
    named = list(zip(LETTERS, titles, strict=False))
    labels = _labels(sequences[0].rows, layers)
    table = Section(
        f"{region}: what a call launches, in launch order, medians",
        head=_HEAD,
        rows=[
            row
            for label, place in zip(labels, _places(sequences), strict=True)
            for row in _cells(label, place)
        ],
        left=(0, 1, 2, 3, 4),
    )
    return [Section("", labelled=named), table]


def _labels(rows: Sequence[LaunchRow], layers: Sequence[str]) -> list[str]:
    """The number of each place, with the layer of a matmul where there are as many matmuls."""
    matmuls = [place for place, row in enumerate(rows) if row.role == "gemm"]
    names = dict(zip(matmuls, layers, strict=True)) if len(matmuls) == len(layers) else {}
    return [f"{place + 1} {names.get(place, '')}".strip() for place in range(len(rows))]


def _places(sequences: Sequence[LaunchSequence]) -> list[list[list[LaunchRow]]]:
    """The rows of every trace at each place of the first; a kernel that it lacks joins the place
    of what it replaces, else the one before it.
    """
    first = sequences[0].rows
    places: list[list[list[LaunchRow]]] = [[[] for _ in sequences] for _ in first]
    for number, entry in enumerate(sequences):
        match = SequenceMatcher(None, _names(first), _names(entry.rows), autojunk=False)
        for _, start, end, left, right in match.get_opcodes():
            last = max(end - 1, start - 1, 0)
            for offset, row in enumerate(entry.rows[left:right]):
                places[min(start + offset, last)][number].append(row)
    return places


def _names(rows: Sequence[LaunchRow]) -> list[str]:
    return [row.name for row in rows]


def _cells(label: str, traces: list[list[LaunchRow]]) -> Iterator[list[str]]:
    """One line for each row of each trace; place and letter stand on the first of theirs."""
    for letter, rows in zip(LETTERS, traces, strict=False):
        for shown in list(map(_shown, rows)) or [["-", "", "", ""]]:
            yield [label, letter, *shown]
            label = letter = ""


def _shown(row: LaunchRow) -> list[str]:
    launch = row.chain[-1] if row.chain else ""
    return [kernel_times(row), op_path(row.chain), launch, time_text(row.ns)]
