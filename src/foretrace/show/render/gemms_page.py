"""The document of `foretrace gemms` as text: a plane of the map, an answer, a sweep."""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.base.units import DASH, count_text, flops_text, percent_text, plural, time_text
from foretrace.schema.documents.gemms import (
    GemmsDocument,
    HeatPlane,
    KindAccuracy,
    LiveSweep,
    MapAccuracy,
    MappedMatmul,
    MatmulSize,
    NearAnswer,
    PredictAnswer,
)
from foretrace.show.render.terminal import WIDTH, Section, drawn, marked

SHADES = " ░▒▓█"
FEW_MATMULS = 14  # on the first screen
ABOVE = 105.0  # percent of the roof: more than noise


def gemms_text(
    document: GemmsDocument,
    *,
    bold: bool = False,
    width: int = WIDTH,
    every: bool = False,
    accuracy: bool = False,
) -> str:
    """For a terminal; `every` tile and every range of rows, or the accuracy alone."""
    if accuracy and not every:
        return drawn([_accuracy(document.accuracy)], bold=bold, width=width)
    found = list(_sections(document, every=every))
    if not every and document.predict is None:
        found.append(Section("", [_more(document)]))
    return drawn(found, bold=bold, width=width)


def _more(document: GemmsDocument) -> str:
    if document.near is not None:
        return "more: --all (other tiles, and where the kernel changes as M grows)"
    if document.sweep is not None:
        return "more: --all (every matmul)"
    return "more: --near MxNxK, --predict MxNxK, --accuracy"


def gemms_markdown(document: GemmsDocument) -> str:
    """For a page: all of it."""
    return marked(list(_sections(document, every=True)))


def sections(document: GemmsDocument) -> list[Section]:
    """All of it, for a page that draws the plane itself."""
    return [section for section in _sections(document, every=True) if section.title != HEAT]


HEAT = "Percent of the roof by M and N"


def _sections(document: GemmsDocument, *, every: bool) -> Iterator[Section]:
    if document.sweep is not None:
        yield from _sweep(document.sweep, every=every)
    elif document.near is not None:
        yield from _near(document.near, document, every=every)
    elif document.predict is not None:
        yield from _predict(document.predict, document)
    else:
        yield _map(document)
    if document.heat is not None:
        yield _heat(document.heat)
    if document.accuracy is not None and document.heat is not None and every:
        yield _accuracy(document.accuracy)
    if document.written:
        yield Section("", [f"wrote {document.written}"])


def _map(document: GemmsDocument) -> Section:
    around = document.environment
    versions = f"torch {around.get('torch', '?')}, driver {around.get('driver', '?')}"
    title = f"{document.device}: {count_text(document.matmuls)} matmuls, {versions}"
    lines = [("MEASURED", f"{around.get('measured', '?')[:10]} with `{document.command}`")]
    if document.accuracy is not None:
        lines.append(("PREDICTED", _accuracy_text(document.accuracy)))
    return Section(title, labelled=lines)


def _heat(plane: HeatPlane) -> Section:
    """Rows are octaves of M, columns octaves of N; a cell is the median of its matmuls."""
    columns = sorted({cell.n for cell in plane.cells})
    cells = {(cell.m, cell.n): cell for cell in plane.cells}
    rows = []
    for m in sorted({cell.m for cell in plane.cells}):
        row = [cells.get((m, n)) for n in columns]
        rows.append([f"{m}+", *(_shaded(cell.roof_percent) if cell else "" for cell in row)])
    kind = f"{plane.dtype} {plane.layout}, epilogue {plane.epilogue}, all K together"
    return Section(
        HEAT,
        [f"{kind}; medians of octaves"],
        head=("M \\ N", *map(_short, columns)),
        rows=rows,
        left=(),
    )


def _short(size: int) -> str:
    return f"{size // 1024}k" if size >= 1024 else str(size)


def _shaded(percent: float) -> str:
    at = min(len(SHADES) - 1, int(percent / 100 * len(SHADES)))
    return f"{SHADES[at]}{percent:3.0f}"


def _accuracy_text(found: MapAccuracy | KindAccuracy) -> str:
    """All held-out matmuls, or those of one kind, in one sentence."""
    kind = f" of this kind ({found.kind})" if isinstance(found, KindAccuracy) else ""
    return (
        f"on {plural(found.matmuls, 'held-out matmul')}{kind}: family right on "
        f"{percent_text(found.family)}, tile on {percent_text(found.tile)}, time within 15% on "
        f"{percent_text(found.time)}, inside the interval on {percent_text(found.interval)}"
    )


def _accuracy(found: MapAccuracy | None) -> Section:
    """Every kind in a row, best first."""
    if found is None:
        return Section("", ["No matmul was held out of this map, so its accuracy is unknown."])
    named: list[tuple[str, MapAccuracy | KindAccuracy]] = [
        (each.kind, each) for each in sorted(found.kinds, key=lambda each: -each.time)
    ]
    rows = [
        [name, count_text(each.matmuls),
         *map(percent_text, (each.family, each.tile, each.time, each.interval))]
        for name, each in [*named, ("all", found)]
    ]  # fmt: skip
    median = f"Half of the times are within {percent_text(found.median_error)}."
    title = "Predictions of matmuls that the map does not hold"
    head = ("kind", "matmuls", "family right", "tile right", "within 15%", "in interval")
    return Section(title, [median], head=head, rows=rows, left=(0,))


def _size(matmul: MatmulSize) -> str:
    epilogue = "" if matmul.epilogue == "none" else f" {matmul.epilogue.replace('_', '+')}"
    return f"{matmul.m}x{matmul.n}x{matmul.k} {matmul.layout} {matmul.dtype}{epilogue}"


def _near(answer: NearAnswer, document: GemmsDocument, *, every: bool) -> Iterator[Section]:
    found = answer.found
    title = f"{_size(found.matmul)} on an {document.device}"
    gap = f"this is the nearest that it holds, {answer.octaves:.1f} octaves away"
    lead = [] if answer.exact else [f"The map does not hold {_size(answer.wanted)}; {gap}."]
    yield Section(title, lead, labelled=[("KERNEL", _kernel(found)), ("TIME", _time(found))])
    yield Section("Why this kernel", bullets=[(text, "") for text in answer.why])
    if answer.tiles and every:
        rows = [
            [
                f"{each.tile}{' (chosen)' if each.chosen else ''}",
                count_text(each.tiles),
                f"{each.waves:.2f}",
                percent_text(each.waste),
                f"{each.used_percent:.0f}%",
                f"{each.reuse:.0f}",
            ]
            for each in answer.tiles
        ]
        head = ("tile", "tiles", "waves", "empty", "in use", "FLOP per element")
        yield Section("Tiles that similar matmuls get, on this one", head=head, rows=rows)
    if answer.against_partner:
        bullets = [(text, "") for text in answer.against_partner]
        yield Section("The same work the other way round (N and K exchanged)", bullets=bullets)
    if every and answer.by_rows:
        yield _by_rows(answer)


def _by_rows(answer: NearAnswer) -> Section:
    rows = [
        [str(each.first_m) if each.first_m == each.last_m else f"{each.first_m} to {each.last_m}",
         each.short, each.cluster]
        for each in answer.by_rows
    ]  # fmt: skip
    title = "As M grows: the rows that were measured with each kernel"
    return Section(title, head=("M", "kernel", "cluster"), rows=rows, left=(0, 1, 2))


def _kernel(found: MappedMatmul) -> str:
    cluster = f", cluster {found.cluster}" if found.cluster else ""
    stages = f", {plural(found.stages, 'stage')}" if found.stages else ""
    others = f"; also {found.others}" if found.others else ""
    return f"{found.short}{cluster}{stages}{others}"


def _time(found: MappedMatmul) -> str:
    cold, warm = time_text(found.cold_us * 1e3), time_text(found.warm_us * 1e3)
    return (
        f"{cold} with L2 empty, {warm} with it filled; {found.tflops:.3g} TFLOP/s, "
        f"{found.roof_percent:.0f}% of the {found.roof} roof"
    )


def _predict(answer: PredictAnswer, document: GemmsDocument) -> Iterator[Section]:
    labelled = list(_predicted(answer))
    if answer.live is not None:
        live = answer.live
        said = f"{live.short}, {time_text(live.us * 1e3)} on this {live.device}"
        labelled.append((live.verdict.upper(), f"{said} ({live.time_error:+.0%} predicted)"))
    elif answer.not_live:
        labelled.append(("NOT MARKED", answer.not_live))
    if document.accuracy is not None and not (answer.measured or answer.inconclusive):
        kinds = (each for each in document.accuracy.kinds if each.kind == answer.kind)
        labelled.append(("HELD OUT", _accuracy_text(next(kinds, document.accuracy))))
    yield Section(f"{_size(answer.matmul)} on an {document.device}", labelled=labelled)
    rows = [
        [_size(each.matmul), each.short, time_text(each.cold_us * 1e3), f"{each.octaves:.2f}"]
        for each in answer.nearest
    ]
    head = ("matmul", "kernel", "time", "octaves away")
    yield Section("The nearest matmuls of the map", head=head, rows=rows, left=(0, 1))


def _predicted(answer: PredictAnswer) -> Iterator[tuple[str, str]]:
    """The kernel, the time, and how far away the measured matmuls are that say so."""
    rate = f"{answer.tflops:.3g} TFLOP/s, {answer.roof_percent:.0f}% of the roof"
    if answer.measured:
        yield "KERNEL", f"{answer.short} (measured)"
        yield "TIME", f"{time_text(answer.us * 1e3)} (measured), {rate}"
        return
    low, us, high = (time_text(each * 1e3) for each in (answer.low_us, answer.us, answer.high_us))
    gap = f"the nearest measured matmul is {answer.nearest[0].octaves:.1f} octaves away"
    if answer.inconclusive:
        yield "INCONCLUSIVE", f"{gap}: too far to predict a kernel or a time"
        yield "HINT", f"the rates of the nearest matmuls give {low} to {high} on {answer.short}"
        return
    agreed = percent_text(answer.agreement)
    yield "KERNEL", f"{answer.short} ({agreed} of the weight of the nearest matmuls)"
    yield "TIME", f"{us} predicted, {low} to {high} nine times of ten; {rate}"
    yield "DISTANCE", gap


def _sweep(found: LiveSweep, *, every: bool) -> Iterator[Section]:
    title = f"{found.device}: torch {found.torch}, {plural(len(found.matmuls), 'matmul')} in "
    lines = [("ROOF", _roofs(found))]
    yield Section(f"{title}{found.seconds:.0f} s", labelled=lines)
    rows = [
        [
            _size(each.matmul),
            time_text(each.us * 1e3),
            f"{each.gflops:,.1f}",
            DASH if each.roof_percent is None else f"{each.roof_percent:.0f}%",
        ]
        for each in (found.matmuls if every else found.matmuls[:FEW_MATMULS])
    ]
    yield Section("Matmuls", head=("matmul", "time", "GFLOP/s", "of the roof"), rows=rows)
    missing = [(f"{name}: {why}", "") for name, why in found.not_measured.items()]
    yield Section("Not measured", bullets=missing)


def _roofs(found: LiveSweep) -> str:
    if not found.roof_tflops:
        return "unknown: measure it with `foretrace roofs`"
    rates = ", ".join(
        f"{name} {flops_text(rate * 1e12)}/s" for name, rate in found.roof_tflops.items()
    )
    above = sum((each.roof_percent or 0) > ABOVE for each in found.matmuls)
    doubt = (
        f"; {plural(above, 'matmul')} above it: the CPU was busy when it was measured, so run "
        "`foretrace roofs` again"
    )
    return f"{rates} ({found.roof_source}){doubt if above else ''}"
