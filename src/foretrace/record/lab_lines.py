"""The documents of `lab shapes` and `lab bench` as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from statistics import fmean
from typing import Any

from foretrace.base.tables import (
    BULLET,
    TEXT,
    WORDS,
    Column,
    Line,
    Table,
    bulleted,
    filled,
    paragraphs,
    text,
)
from foretrace.base.units import plural, ratio_text, time_text
from foretrace.record.lab_documents import (
    BenchDocument,
    BenchRow,
    ContenderTimes,
    ContenderVisits,
    ShapesDocument,
    ShapeVisit,
)

EAGERLY = "*"
_SUMMARY = (
    Column("contender", "name", WORDS), Column("graphs"), Column("recompiled", "recompiles"),
    Column("stalls", "stall_ns"), Column("warm call, mean", lambda entry: _mean_ns(entry), "ns"),
    Column("description", lambda entry: entry.what, WORDS),
)  # fmt: skip


def shapes_page(document: ShapesDocument, *, every: bool = False) -> list[Table]:
    """The verdict and a line per contender, or `every` table."""
    eager = any(visit.compiled is False for one in document.contenders for visit in one.visits)
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

    def by_shape(title: str, cell: Callable[[ShapeVisit], Any], unit: str, more: str = "") -> Table:
        """A row is the place of a shape."""
        names = labels(document)

        def column(entry: ContenderVisits) -> Column:
            return Column(entry.name, lambda at: cell(entry.visits[at]), unit)

        first = Column(" x ".join(document.shapes[0]), lambda at: names[at], WORDS)
        rows = range(len(names) if document.contenders else 0)
        return Table(title, [first, *map(column, document.contenders)], rows, more)

    def warm(visit: ShapeVisit) -> str:
        return time_text(visit.wall_ns) + EAGERLY * (visit.compiled is False)

    def ratio(visit: ShapeVisit) -> float | str | None:
        """Only where it is larger than the noise of the batches."""
        return "same" if visit.against_first.beyond is False else visit.against_first.ratio

    stall = "Stall at each new shape: its first three calls, beyond warm ones"
    verdict = [Line("", line) for line in lines] + _shapes_verdict(document)
    recompiled = [Line(BULLET, where, "; ".join(whys)) for where, whys in reasons.items()]
    page = [
        Table(heading, lines=verdict),
        Table("Summary", _SUMMARY, document.contenders, _limit(document)),
        by_shape(stall, lambda visit: visit.stall_ns or "none", "ns"),
        by_shape("Graphs compiled", lambda visit: visit.graphs or "", "count"),
        by_shape("A warm call", warm, TEXT, f"{EAGERLY} runs eagerly: Dynamo gave up" * eager),
        by_shape(against, ratio, "ratio"),
        Table("Why it was recompiled", lines=recompiled),
        bulleted("Left out", [f"{entry.name}: {entry.why}" for entry in document.left_out]),
    ]
    if every:
        return filled(page)
    more = paragraphs("", "more: --all (every shape, and why it was recompiled)")
    return [*filled(page)[:2], more]


def labels(document: ShapesDocument) -> list[str]:
    """`8x64x512` for each shape, in the order visited."""
    return ["x".join(str(value) for value in shape.values()) for shape in document.shapes]


def _shapes_verdict(document: ShapesDocument) -> list[Line]:
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
    first = f"{fastest}: {said}{against}, after {time_text(stalls[fastest])} of stalls"
    lines = [Line("FASTEST", first)]
    if calm != fastest:
        lines.append(Line("CALMEST", f"{calm}: {time_text(stalls[calm])} of stalls at {shapes}"))
    return lines


def _mean_ns(entry: ContenderVisits) -> float:
    return fmean(visit.wall_ns or 0 for visit in entry.visits)


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


def short_reason(why: str) -> str:
    """Dynamo's reason without the number of the frame and without its advice."""
    number, colon, rest = why.partition(": ")
    text = " ".join((rest if colon and number.replace("/", "").isdecimal() else why).split())
    return text.partition(" Guard failed on a parameter, consider")[0].rstrip(".")


def _gain(timed: tuple[BenchRow, str, ContenderTimes]) -> str:
    row, name, _ = timed
    device, call = row.gain("device"), row.gain("call")
    return f"{device:.3f} {call:.3f}" if name == "ours" and device and call else ""


# a row is a row of the results, the name of a contender, and its times
_BENCH = (
    Column("size", lambda timed: timed[0].size, WORDS),
    Column("contender", lambda timed: timed[1], WORDS),
    Column("device", lambda timed: timed[2].device * 1e3, "ns"),
    Column("from", lambda timed: timed[2].device_low * 1e3, "ns"),
    Column("to", lambda timed: timed[2].device_high * 1e3, "ns"),
    Column("call", lambda timed: timed[2].call * 1e3, "ns"),
    Column("error", lambda timed: f"{timed[2].error:.1e}", TEXT),
    Column("TB/s", lambda timed: f"{timed[0].bytes / timed[2].device / 1e6:.2f}", TEXT),
    Column("TFLOP/s", lambda timed: f"{timed[0].flops / timed[2].device / 1e6:.0f}", TEXT),
    Column("first call", lambda timed: timed[2].first_call_ms * 1e6, "ns"),
    Column("gain", _gain, TEXT),
)


def bench_text(results: BenchDocument) -> str:
    """One line per contender; `gain` is the best peer's time over ours, device and call."""
    copy, matmul = f"{results.copy_tbps:.2f} TB/s", f"{results.matmul_tflops:.0f} TFLOP/s"
    where = ", ".join(f"{key} {value}" for key, value in results.environment.items())
    ceilings = f"ceilings: copy {copy}, bf16 matmul {matmul}"
    tables = [paragraphs("", where, ceilings, f"own kernels ready after {results.warm_up_s:.1f} s")]
    for subject, group in groupby(results.rows, lambda row: row.subject):
        rows = list(group)
        timed = [(row, *times) for row in rows for times in row.timings.items()]
        tables += [Table(subject, _BENCH, timed), bulleted("", _bench_notes(rows))]
    return text(filled(tables), width=_BENCH_WIDTH) + "\n"


_BENCH_WIDTH = 132  # of a terminal in which a benchmark is read: no name is cut


def _bench_notes(rows: list[BenchRow]) -> Iterator[str]:
    """The size at which ours does worst, if there are several, and who did not run."""
    for measure in ("device", "call"):
        gains = [(gain, row.size) for row in rows if (gain := row.gain(measure)) is not None]
        if len(gains) > 1:
            gain, size = min(gains)
            yield f"least gain over the best peer, {measure} time: {gain:.3f} at {size}"
    for row in rows:
        for name, why in row.left_out.items():
            yield f"{name} at {row.size} is left out: {why}"
