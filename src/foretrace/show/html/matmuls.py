"""The matmuls of a trace on the map of its card: the plane, and what the map measured."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from foretrace.base.units import time_text
from foretrace.model.order import Case
from foretrace.model.trace import Trace
from foretrace.names.gemms import table
from foretrace.names.gemms.answers import plane
from foretrace.names.gemms.distance import Nearest
from foretrace.names.gemms.table import gemm_point
from foretrace.schema.documents.gemms import HeatPlane
from foretrace.schema.gemms import GemmPoint

MOST = 40  # matmuls of a table
HEAD = ("matmul", "launches", "kernel here", "time here", "kernel of the map", "time of the map")


class MatmulMark(Struct, frozen=True):
    """Where a matmul of the trace lies in the plane."""

    m: int
    n: int
    text: str


class MatmulsOnMap(Struct, frozen=True):
    """What the script of a report draws."""

    device: str
    plane: HeatPlane
    marks: list[MatmulMark]
    head: tuple[str, ...]
    rows: list[list[str]]


def on_map(trace: Trace) -> MatmulsOnMap | None:
    """None where the card has no map, or the trace no matmul with shapes."""
    found = table.of_device(trace.about.device)
    cases = [] if found is None else list(_cases(trace))
    if found is None or not cases:
        return None
    cases.sort(key=lambda each: -(each[1].ns or 0))
    usual = cases[0][0]._replace(epilogue="none")
    drawn = [(point, case) for point, case in cases if _kind(point) == _kind(usual)]
    marks = [
        MatmulMark(point.m, point.n, f"{point.text}: {case.id.short}") for point, case in drawn
    ]
    nearest = Nearest(found)
    rows = [_row(nearest, point, case) for point, case in cases[:MOST]]
    return MatmulsOnMap(found.facts.device, plane(found, usual), marks, HEAD, rows)


def _kind(point: GemmPoint) -> tuple[str, str]:
    return point.dtype, point.layout


def _cases(trace: Trace) -> Iterator[tuple[GemmPoint, Case]]:
    for case in trace.order.cases:
        if case.role != "gemm" or case.call is None or not case.count:
            continue
        tensors = [case.call.tensor(at) for at in range(3)]
        given = [each for each in tensors if each is not None]
        sizes, types = [each.dims for each in given], [each.type for each in given]
        point = gemm_point(case.call.name, sizes, types, case.name)
        if point is not None:
            yield point, case


def _row(nearest: Nearest, point: GemmPoint, case: Case) -> list[str]:
    found = nearest.map
    here = [point.text, str(case.count), case.id.short, time_text(case.median_ns)]
    held = found.rows.get(point)
    if held is None:
        made = nearest.predict(point)
        if made.far:
            return [*here, "inconclusive", "inconclusive"]
        return [*here, f"guess: {made.short}", f"guess: {time_text(made.us * 1e3)}"]
    row = found.frame.row(held, named=True)
    kernel = "the same" if row["kernel"] == case.name else row["short"]
    return [*here, kernel, time_text(row["kernel_us"] * 1e3)]
