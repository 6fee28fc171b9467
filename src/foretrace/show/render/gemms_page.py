"""The document of `foretrace lab gemms` as text: a plane of the map, an answer, a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from foretrace.base.units import DASH, count_text, flops_text, percent_text, plural, time_text
from foretrace.schema.documents import gemms
from foretrace.show.render.terminal import Column, Section, bulleted, listing

SHADES = " ░▒▓█"
FEW_MATMULS = 14  # on the first screen
ABOVE = 105.0  # percent of the roof: more than noise


HEAT = "Percent of the roof by M and N"


def page(document: gemms.GemmsDocument, *, every: bool, accuracy: bool = False) -> list[Section]:
    """`every` tile and every range of rows, or the accuracy alone."""
    if accuracy and not every:
        return [_accuracy(document.accuracy)]
    found = list(_sections(document, every=every))
    if every or document.predict is not None:
        return found
    more = "--near MxNxK, --predict MxNxK, --accuracy"
    if document.near is not None:
        more = "--all (other tiles, and where the kernel changes as M grows)"
    elif document.sweep is not None:
        more = "--all (every matmul)"
    return [*found, Section("", [f"more: {more}"])]


def _sections(document: gemms.GemmsDocument, *, every: bool) -> Iterator[Section]:
    if document.sweep is not None:
        yield from _sweep(document.sweep, every=every)
    elif document.near is not None:
        yield from _near(document.near, document, every=every)
    elif document.predict is not None:
        yield from _predict(document.predict, document)
    else:
        around = document.environment
        versions = f"torch {around.get('torch', '?')}, driver {around.get('driver', '?')}"
        title = f"{document.device}: {count_text(document.matmuls)} matmuls, {versions}"
        lines = [("MEASURED", f"{around.get('measured', '?')[:10]} with `{document.command}`")]
        if document.accuracy is not None:
            lines.append(("PREDICTED", _accuracy_text(document.accuracy)))
        yield Section(title, labelled=lines)
    if document.heat is not None:
        yield _heat(document.heat)
    if document.accuracy is not None and document.heat is not None and every:
        yield _accuracy(document.accuracy)
    if document.written:
        yield Section("", [f"wrote {document.written}"])


def _heat(plane: gemms.HeatPlane) -> Section:
    """Rows are octaves of M, columns octaves of N; a cell is the median of its matmuls."""
    columns = sorted({cell.n for cell in plane.cells})
    cells = {(cell.m, cell.n): cell for cell in plane.cells}
    rows = []
    for m in sorted({cell.m for cell in plane.cells}):
        row = [cells.get((m, n)) for n in columns]
        rows.append([f"{m}+", *(_shaded(cell.roof_percent) if cell else "" for cell in row)])
    kind = f"{plane.dtype} {plane.layout}, epilogue {plane.epilogue}, all K together"
    sizes = [f"{size // 1024}k" if size >= 1024 else str(size) for size in columns]
    told = [f"{kind}; medians of octaves"]
    return Section(HEAT, told, head=("M \\ N", *sizes), rows=rows, left=())


def _shaded(percent: float) -> str:
    at = min(len(SHADES) - 1, int(percent / 100 * len(SHADES)))
    return f"{SHADES[at]}{percent:3.0f}"


def _accuracy_text(found: gemms.MapAccuracy | gemms.KindAccuracy) -> str:
    """All held-out matmuls, or those of one kind, in one sentence."""
    kind = f" of this kind ({found.kind})" if isinstance(found, gemms.KindAccuracy) else ""
    return (
        f"on {plural(found.matmuls, 'held-out matmul')}{kind}: family right on "
        f"{percent_text(found.family)}, tile on {percent_text(found.tile)}, time within 15% on "
        f"{percent_text(found.time)}, inside the interval on {percent_text(found.interval)}"
    )


def _accuracy(found: gemms.MapAccuracy | None) -> Section:
    if found is None:
        return Section("", ["No matmul was held out of this map, so its accuracy is unknown."])
    kinds = sorted(found.kinds, key=lambda each: -each.time)
    columns: dict[str, Column] = {
        "kind": lambda each: getattr(each, "kind", "all"),
        "matmuls": "matmuls",
        "family right": lambda each: percent_text(each.family),
        "tile right": lambda each: percent_text(each.tile),
        "within 15%": lambda each: percent_text(each.time),
        "in interval": lambda each: percent_text(each.interval),
    }
    median = f"Half of the times are within {percent_text(found.median_error)}."
    title = "Predictions of matmuls that the map does not hold"
    return replace(listing(title, [*kinds, found], columns), paragraphs=[median])


def _size(matmul: gemms.MatmulSize) -> str:
    epilogue = "" if matmul.epilogue == "none" else f" {matmul.epilogue.replace('_', '+')}"
    return f"{matmul.m}x{matmul.n}x{matmul.k} {matmul.layout} {matmul.dtype}{epilogue}"


def _near(
    answer: gemms.NearAnswer, document: gemms.GemmsDocument, *, every: bool
) -> Iterator[Section]:
    found = answer.found
    title = f"{_size(found.matmul)} on an {document.device}"
    gap = f"this is the nearest that it holds, {answer.octaves:.1f} octaves away"
    lead = [] if answer.exact else [f"The map does not hold {_size(answer.wanted)}; {gap}."]
    cluster = f", cluster {found.cluster}" if found.cluster else ""
    stages = f", {plural(found.stages, 'stage')}" if found.stages else ""
    others = f"; also {found.others}" if found.others else ""
    cold, warm = time_text(found.cold_us * 1e3), time_text(found.warm_us * 1e3)
    rate = f"{found.tflops:.3g} TFLOP/s, {found.roof_percent:.0f}% of the {found.roof} roof"
    kernel = ("KERNEL", f"{found.short}{cluster}{stages}{others}")
    time = ("TIME", f"{cold} with L2 empty, {warm} with it filled; {rate}")
    yield Section(title, lead, labelled=[kernel, time])
    yield bulleted("Why this kernel", answer.why)
    if answer.tiles and every:
        yield listing("Tiles that similar matmuls get, on this one", answer.tiles, _TILES)
    if answer.against_partner:
        other = "The same work the other way round (N and K exchanged)"
        yield bulleted(other, answer.against_partner)
    if every and answer.by_rows:
        title = "As M grows: the rows that were measured with each kernel"
        yield listing(title, answer.by_rows, _BY_ROWS, left=(0, 1, 2))


_TILES: dict[str, Column] = {
    "tile": lambda each: f"{each.tile}{' (chosen)' if each.chosen else ''}",
    "tiles": "tiles",
    "waves": lambda each: f"{each.waves:.2f}",
    "empty": lambda each: percent_text(each.waste),
    "in use": lambda each: f"{each.used_percent:.0f}%",
    "FLOP per element": lambda each: f"{each.reuse:.0f}",
}
_BY_ROWS: dict[str, Column] = {
    "M": lambda each: " to ".join(map(str, dict.fromkeys((each.first_m, each.last_m)))),
    "kernel": "short",
    "cluster": lambda each: each.cluster,
}
_NEAREST: dict[str, Column] = {
    "matmul": lambda each: _size(each.matmul),
    "kernel": "short",
    "time": lambda each: time_text(each.cold_us * 1e3),
    "octaves away": lambda each: f"{each.octaves:.2f}",
}
_SWEPT: dict[str, Column] = {
    "matmul": lambda each: _size(each.matmul),
    "time": lambda each: time_text(each.us * 1e3),
    "GFLOP/s": lambda each: f"{each.gflops:,.1f}",
    "of the roof": lambda each: DASH if each.roof_percent is None else f"{each.roof_percent:.0f}%",
}


def _predict(answer: gemms.PredictAnswer, document: gemms.GemmsDocument) -> Iterator[Section]:
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
    yield listing("The nearest matmuls of the map", answer.nearest, _NEAREST, left=(0, 1))


def _predicted(answer: gemms.PredictAnswer) -> Iterator[tuple[str, str]]:
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


def _sweep(found: gemms.LiveSweep, *, every: bool) -> Iterator[Section]:
    title = f"{found.device}: torch {found.torch}, {plural(len(found.matmuls), 'matmul')} in "
    yield Section(f"{title}{found.seconds:.0f} s", labelled=[("ROOF", _roofs(found))])
    yield listing("Matmuls", found.matmuls if every else found.matmuls[:FEW_MATMULS], _SWEPT)
    missing = found.not_measured.items()
    yield bulleted("Not measured", [f"{name}: {why}" for name, why in missing])


def _roofs(found: gemms.LiveSweep) -> str:
    if not found.roof_tflops:
        return "unknown: measure it with `foretrace lab roofs`"
    rates = ", ".join(
        f"{name} {flops_text(rate * 1e12)}/s" for name, rate in found.roof_tflops.items()
    )
    above = sum((each.roof_percent or 0) > ABOVE for each in found.matmuls)
    doubt = (
        f"; {plural(above, 'matmul')} above it: the CPU was busy when it was measured, so run "
        "`foretrace lab roofs` again"
    )
    return f"{rates} ({found.roof_source}){doubt if above else ''}"
