"""The document of `foretrace shapes` as text: a summary, then tables by shape, then the reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from statistics import fmean

from foretrace.base.units import count_text, ratio_text, time_text
from foretrace.schema.documents.shapes import ContenderVisits, ShapesDocument, ShapeVisit
from foretrace.show.render.section import Section, drawn, marked

EAGERLY = "*"


def shapes_text(document: ShapesDocument, *, bold: bool = False, every: bool = False) -> str:
    """For a terminal: the verdict and a line per contender, or `every` table."""
    page = _sections(document)
    if not every:
        page = [*page[:2], Section("", ["more: --all (every shape, and why it was recompiled)"])]
    return drawn(page, bold=bold)


def shapes_markdown(document: ShapesDocument) -> str:
    """For a page: the same tables."""
    return marked(_sections(document))


def labels(document: ShapesDocument) -> list[str]:
    """`8x64x512` for each shape, in the order visited."""
    return ["x".join(str(value) for value in shape.values()) for shape in document.shapes]


def _sections(document: ShapesDocument) -> list[Section]:
    visits = [visit for entry in document.contenders for visit in entry.visits]
    eager = any(visit.compiled is False for visit in visits)
    stall = "Stall at each new shape: its first three calls, beyond warm ones"
    against = f"A warm call over {document.first}, measured in turns (below 1 is faster)"
    left_out = [(f"{entry.name}: {entry.why}", "") for entry in document.left_out]
    where = f"{document.device}, torch {document.torch}, {document.dtype}"
    heading = f"{document.rung}, {len(document.shapes)} shapes: {where}"
    found = [
        Section(heading, _circumstances(document), labelled=_verdict(document)),
        _summary(document),
        _table(document, stall, lambda visit: _if_any(visit.stall_ns, time_text, "none")),
        _table(document, "Graphs compiled", lambda visit: _if_any(visit.graphs, count_text, "")),
        _table(document, "A warm call", _warm, f"{EAGERLY} runs eagerly: Dynamo gave up" * eager),
        _table(document, against, _against),
        _reasons(document),
        Section("Left out", bullets=left_out),
    ]
    return [section for section in found if section.rows or section.bullets or section.paragraphs]


def _verdict(document: ShapesDocument) -> list[tuple[str, str]]:
    """Who is fastest once warm, and who pays least for new shapes."""
    warm = {entry.name: _mean_ns(entry) for entry in document.contenders if entry.visits}
    if not warm:
        return []
    stalls = {entry.name: entry.stall_ns for entry in document.contenders}
    fastest, calm = min(warm, key=warm.__getitem__), min(stalls, key=stalls.__getitem__)
    shapes = f"{len(document.shapes)} shapes"
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


def _if_any(value: float, text: Callable[[float], str], none: str) -> str:
    return text(value) if value else none


def _circumstances(document: ShapesDocument) -> list[str]:
    sizes = document.fixed.items()
    fixed = ", ".join(f"{name} {value}" for name, value in sizes if value is not False)
    kept = document.compiler_cache == "kept"
    cache = "your own compiler cache, which hides stalls" if kept else "an empty compiler cache"
    order = "Each contender visits the shapes in this order and starts with nothing compiled and"
    lines = [f"{order} {cache}." + (f" Fixed sizes: {fixed}." if fixed else "")]
    if document.compiler_start_ns is not None:
        started = time_text(document.compiler_start_ns)
        lines.append(f"No time below includes the start of the compiler ({started}).")
    return lines


def _summary(document: ShapesDocument) -> Section:
    head = ("contender", "graphs", "recompiled", "stalls", "warm call, mean", "description")
    rows = []
    for entry in document.contenders:
        counts = map(count_text, (entry.graphs, entry.recompiles))
        times = [time_text(entry.stall_ns), time_text(_mean_ns(entry))]
        rows.append([entry.name, *counts, *times, entry.what])
    return Section("Summary", head=head, rows=rows, left=(0, 5), after=_limit(document))


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


def _table(
    document: ShapesDocument, title: str, cell: Callable[[ShapeVisit], str], after: str = ""
) -> Section:
    columns: list[ContenderVisits] = document.contenders
    rows = [
        [label, *(cell(entry.visits[at]) for entry in columns)]
        for at, label in enumerate(labels(document))
    ]
    head = (" x ".join(document.shapes[0]), *(entry.name for entry in columns))
    return Section(title, head=head, rows=rows if columns else [], after=after)


def _warm(visit: ShapeVisit) -> str:
    return time_text(visit.wall_ns) + (EAGERLY if visit.compiled is False else "")


def _against(visit: ShapeVisit) -> str:
    """A ratio only where it is larger than the noise of the batches."""
    against = visit.against_first
    return "same" if against.beyond is False else ratio_text(against.ratio)


def _reasons(document: ShapesDocument) -> Section:
    """Why something was recompiled, one bullet for each contender and reason."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for entry in document.contenders:
        for label, visit in zip(labels(document), entry.visits, strict=True):
            for why in visit.recompiles:
                reasons[f"{entry.name} at {label}"].append(short_reason(why))
    bullets = [(where, "; ".join(whys)) for where, whys in reasons.items()]
    return Section("Why it was recompiled", bullets=bullets)


def short_reason(why: str) -> str:
    """Dynamo's reason without the number of the frame and without its advice."""
    number, colon, rest = why.partition(": ")
    text = " ".join((rest if colon and number.replace("/", "").isdecimal() else why).split())
    return text.partition(" Guard failed on a parameter, consider")[0].rstrip(".")
