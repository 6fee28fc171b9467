"""The documents of `lab shapes` and `lab bench` as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from statistics import fmean

from foretrace.base.terminal import Column, Section, bulleted, listing
from foretrace.base.units import count_text, plural, ratio_text, time_text
from foretrace.record.lab_documents import (
    BenchDocument,
    BenchRow,
    ContenderVisits,
    ShapesDocument,
    ShapeVisit,
)

EAGERLY = "*"


def shapes_page(document: ShapesDocument, *, every: bool = False) -> list[Section]:
    """The verdict and a line per contender, or `every` table."""
    visits = [visit for entry in document.contenders for visit in entry.visits]

    def ratio(visit: ShapeVisit) -> str:
        """Only where it is larger than the noise of the batches."""
        found = visit.against_first
        return "same" if found.beyond is False else ratio_text(found.ratio)

    eager = any(visit.compiled is False for visit in visits)
    stall = "Stall at each new shape: its first three calls, beyond warm ones"
    against = f"A warm call over {document.first}, measured in turns (below 1 is faster)"
    where = f"{document.device}, torch {document.torch}, {document.dtype}"
    heading = f"{document.rung}, {plural(len(document.shapes), 'shape')}: {where}"
    sizes = document.fixed.items()
    fixed = ", ".join(f"{name} {value}" for name, value in sizes if value is not False)
    order = "Each contender visits the shapes in this order and starts with nothing compiled and"
    lines = [f"{order} an empty compiler cache." + (f" Fixed sizes: {fixed}." if fixed else "")]
    if document.compiler_start_ns is not None:
        started = time_text(document.compiler_start_ns)
        lines.append(f"No time below includes the start of the compiler ({started}).")
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for entry in document.contenders:
        for label, visit in zip(labels(document), entry.visits, strict=True):
            for why in visit.recompiles:
                reasons[f"{entry.name} at {label}"].append(short_reason(why))
    bullets = [(where, "; ".join(whys)) for where, whys in reasons.items()]
    found = [
        Section(heading, lines, labelled=_shapes_verdict(document)),
        listing("Summary", document.contenders, _SUMMARY, left=(0, 5), after=_limit(document)),
        _by_shape(document, stall, lambda v: time_text(v.stall_ns) if v.stall_ns else "none"),
        _by_shape(document, "Graphs compiled", lambda v: count_text(v.graphs) if v.graphs else ""),
        _by_shape(
            document,
            "A warm call",
            lambda v: time_text(v.wall_ns) + (EAGERLY if v.compiled is False else ""),
            f"{EAGERLY} runs eagerly: Dynamo gave up" * eager,
        ),
        _by_shape(document, against, ratio),
        Section("Why it was recompiled", bullets=bullets),
        bulleted("Left out", [f"{entry.name}: {entry.why}" for entry in document.left_out]),
    ]
    page = [section for section in found if section.filled]
    if every:
        return page
    return [*page[:2], Section("", ["more: --all (every shape, and why it was recompiled)"])]


def labels(document: ShapesDocument) -> list[str]:
    """`8x64x512` for each shape, in the order visited."""
    return ["x".join(str(value) for value in shape.values()) for shape in document.shapes]


def _shapes_verdict(document: ShapesDocument) -> list[tuple[str, str]]:
    """Who is fastest once warm, and who pays least for new shapes."""
    warm = {entry.name: _mean_ns(entry) for entry in document.contenders if entry.visits}
    if not warm:
        return []
    stalls = {entry.name: entry.stall_ns for entry in document.contenders}
    fastest, calm = min(warm, key=warm.__getitem__), min(stalls, key=stalls.__getitem__)
    shapes = plural(len(document.shapes), "shape")
    said = f"{time_text(warm[fastest])} a warm call (mean of {shapes})"
    ratio = warm[fastest] / warm[document.first] if warm.get(document.first) else None
    against = "" if fastest == document.first else f", {ratio_text(ratio)} of {document.first}"
    lines = [
        ("FASTEST", f"{fastest}: {said}{against}, after {time_text(stalls[fastest])} of stalls")
    ]
    if calm != fastest:
        lines.append(("CALMEST", f"{calm}: {time_text(stalls[calm])} of stalls at {shapes}"))
    return lines


def _mean_ns(entry: ContenderVisits) -> float:
    return fmean(visit.wall_ns or 0 for visit in entry.visits)


_SUMMARY: dict[str, Column] = {
    "contender": "name",
    "graphs": "graphs",
    "recompiled": "recompiles",
    "stalls": "stall_ns",
    "warm call, mean": lambda entry: time_text(_mean_ns(entry)),
    "description": lambda entry: entry.what,
}


def _limit(document: ShapesDocument) -> str:
    gave_up = {
        entry.name: [why for visit in entry.visits for why in visit.gave_up]
        for entry in document.contenders
    }
    names = ", ".join(name for name, reasons in gave_up.items() if reasons)
    if not names:
        return ""
    reasons = "; ".join(dict.fromkeys(why for whys in gave_up.values() for why in whys))
    limit = f"torch._dynamo.config.recompile_limit is {document.recompile_limit}"
    return f"Dynamo gave up on {names} ({reasons}; {limit}): new shapes run eagerly."


def _by_shape(
    document: ShapesDocument, title: str, cell: Callable[[ShapeVisit], str], after: str = ""
) -> Section:
    columns: list[ContenderVisits] = document.contenders
    rows = [
        [label, *(cell(entry.visits[at]) for entry in columns)]
        for at, label in enumerate(labels(document))
    ]
    head = (" x ".join(document.shapes[0]), *(entry.name for entry in columns))
    return Section(title, head=head, rows=rows if columns else [], after=after)


def short_reason(why: str) -> str:
    """Dynamo's reason without the number of the frame and without its advice."""
    number, colon, rest = why.partition(": ")
    text = " ".join((rest if colon and number.replace("/", "").isdecimal() else why).split())
    return text.partition(" Guard failed on a parameter, consider")[0].rstrip(".")


_BENCH_COLUMNS = {
    "size": 16, "contender": 14, "device us": 10, "": 17, "call us": 10, "error": 8, "TB/s": 6,
    "TFLOP/s": 8, "first call ms": 13, "gain": 11,
}  # fmt: skip
_LEFT = 2  # the columns of words


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
        lines += ["", subject, _bench_line(tuple(_BENCH_COLUMNS))]
        lines += [_bench_line(cells) for row in shown for cells in _bench_cells(row)]
        lines += _least_gains(shown)
    return "\n".join(lines) + "\n"


def _least_gains(rows: list[BenchRow]) -> Iterator[str]:
    """The size at which ours does worst, if there are several."""
    for measure in ("device", "call"):
        gains = [(gain, row.size) for row in rows if (gain := row.gain(measure)) is not None]
        if len(gains) > 1:
            gain, size = min(gains)
            yield f"least gain over the best peer, {measure} time: {gain:.3f} at {size}"


def _bench_cells(row: BenchRow) -> Iterator[tuple[str, ...]]:
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
        yield (row.size, name, why, *[""] * (len(_BENCH_COLUMNS) - 3))


def _bench_line(cells: tuple[str, ...]) -> str:
    sized = enumerate(zip(cells, _BENCH_COLUMNS.values(), strict=True))
    text = [cell.ljust(size) if at < _LEFT else cell.rjust(size) for at, (cell, size) in sized]
    return " ".join(text).rstrip()
