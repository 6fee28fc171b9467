"""`foretrace lab gemms` as text: a plane of the map, or why a shape gets its kernel."""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.base.terminal import Column, Section, bulleted, listing
from foretrace.base.units import count_text, percent_text, plural, time_text
from foretrace.work.gemms.documents import GemmsDocument, HeatPlane, NearAnswer

SHADES = " ░▒▓█"
_TILES: dict[str, Column] = {
    "tile": lambda choice: f"{choice.tile}{' (chosen)' if choice.chosen else ''}",
    "tiles": "tiles",
    "waves": lambda choice: f"{choice.waves:.2f}",
    "empty": lambda choice: percent_text(choice.waste),
    "in use": lambda choice: f"{choice.used_percent:.0f}%",
    "FLOP per element": lambda choice: f"{choice.reuse:.0f}",
}
_BY_ROWS: dict[str, Column] = {
    "M": lambda rows: " to ".join(map(str, dict.fromkeys((rows.first_m, rows.last_m)))),
    "kernel": "short",
    "cluster": lambda rows: rows.cluster,
}


def page(document: GemmsDocument, *, every: bool) -> list[Section]:
    """`every` tile and every range of rows."""
    if document.near is not None:
        more = "--all (other tiles, and where the kernel changes as M grows)"
        sections = list(_near(document.near, document.device, every=every))
        return sections if every else [*sections, Section("", [f"more: {more}"])]
    around = document.environment
    versions = f"torch {around.get('torch', '?')}, driver {around.get('driver', '?')}"
    title = f"{document.device}: {count_text(document.matmuls)} matmuls, {versions}"
    when = f"{around.get('measured', '?')[:10]} with `{document.command}`"
    head = Section(title, labelled=[("MEASURED", when)])
    more = "foretrace lab gemms MxNxK (why this shape gets its kernel)"
    planes = [_heat(document.heat)] if document.heat is not None else []
    return [head, *planes, Section("", [f"more: {more}"])]


def _heat(plane: HeatPlane) -> Section:
    """Rows are octaves of M, columns octaves of N; a cell is the median of its matmuls."""
    columns = sorted({cell.n for cell in plane.cells})
    percents = {(cell.m, cell.n): cell.roof_percent for cell in plane.cells}
    rows = []
    for m in sorted({cell.m for cell in plane.cells}):
        row = [f"{m}+"]
        for n in columns:
            percent = percents.get((m, n))
            shade = min(len(SHADES) - 1, int((percent or 0) / 100 * len(SHADES)))
            row.append("" if percent is None else f"{SHADES[shade]}{percent:3.0f}")
        rows.append(row)
    kind = f"{plane.dtype} {plane.layout}, epilogue {plane.epilogue}, all K together"
    sizes = [f"{size // 1024}k" if size >= 1024 else str(size) for size in columns]
    return Section(
        "Percent of the roof by M and N",
        [f"{kind}; medians of octaves"],
        head=("M \\ N", *sizes),
        rows=rows,
        left=(),
    )


def _near(answer: NearAnswer, device: str, *, every: bool) -> Iterator[Section]:
    held = answer.found
    gap = f"this is the nearest that it holds, {answer.octaves:.1f} octaves away"
    lead = [] if answer.exact else [f"The map does not hold {answer.wanted.text}; {gap}."]
    cluster = f", cluster {held.cluster}" if held.cluster else ""
    stages = f", {plural(held.stages, 'stage')}" if held.stages else ""
    others = f"; also {held.others}" if held.others else ""
    cold, warm = time_text(held.cold_us * 1e3), time_text(held.warm_us * 1e3)
    rate = f"{held.tflops:.3g} TFLOP/s, {held.roof_percent:.0f}% of the {held.roof} roof"
    kernel = ("KERNEL", f"{held.short}{cluster}{stages}{others}")
    time = ("TIME", f"{cold} with L2 empty, {warm} with it filled; {rate}")
    yield Section(f"{held.matmul.text} on an {device}", lead, labelled=[kernel, time])
    yield bulleted("Why this kernel", answer.why)
    if answer.tiles and every:
        yield listing("Tiles that similar matmuls get, on this one", answer.tiles, _TILES)
    if answer.against_partner:
        other = "The same work the other way round (N and K exchanged)"
        yield bulleted(other, answer.against_partner)
    if every and answer.by_rows:
        title = "As M grows: the rows that were measured with each kernel"
        yield listing(title, answer.by_rows, _BY_ROWS, left=(0, 1, 2))
