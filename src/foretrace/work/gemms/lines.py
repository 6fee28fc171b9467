"""`foretrace lab gemms` as text: a plane of the map, or why a shape gets its kernel."""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.base.tables import TEXT, WORDS, Column, Line, Table, bulleted, paragraphs
from foretrace.base.units import count_text, plural, time_text
from foretrace.work.gemms.documents import GemmsDocument, HeatPlane, NearAnswer

SHADES = " ░▒▓█"
_TILES = (
    Column("tile", lambda choice: f"{choice.tile}{' (chosen)' * choice.chosen}", WORDS),
    Column("tiles"),
    Column("waves", lambda choice: f"{choice.waves:.2f}", TEXT),
    Column("empty", "waste", "share"),
    Column("in use", lambda choice: f"{choice.used_percent:.0f}%", TEXT),
    Column("FLOP per element", lambda choice: f"{choice.reuse:.0f}", TEXT),
)
_RANGES = (
    Column("M", lambda row: " to ".join(map(str, dict.fromkeys((row.first_m, row.last_m)))), WORDS),
    Column("kernel", "short", WORDS),
    Column("cluster", lambda row: row.cluster, WORDS),
)


def page(document: GemmsDocument, *, every: bool) -> list[Table]:
    """`every` tile and every range of row."""
    if document.near is not None:
        more = "--all (other tiles, and where the kernel changes as M grows)"
        sections = list(_near(document.near, document.device, every=every))
        return sections if every else [*sections, paragraphs("", f"more: {more}")]
    around = document.environment
    versions = f"torch {around.get('torch', '?')}, driver {around.get('driver', '?')}"
    title = f"{document.device}: {count_text(document.matmuls)} matmuls, {versions}"
    when = f"{around.get('measured', '?')[:10]} with `{document.command}`"
    head = Table(title, lines=[Line("MEASURED", when)])
    more = "foretrace lab gemms MxNxK (why this shape gets its kernel)"
    planes = [_heat(document.heat)] if document.heat is not None else []
    return [head, *planes, paragraphs("", f"more: {more}")]


def _heat(plane: HeatPlane) -> Table:
    """Rows are octaves of M, columns octaves of N; a cell is the median of its matmuls."""
    percents = {(cell.m, cell.n): cell.roof_percent for cell in plane.cells}

    def octave(n: int) -> Column:
        def cell(m: int) -> str:
            percent = percents.get((m, n))
            shade = min(len(SHADES) - 1, int((percent or 0) / 100 * len(SHADES)))
            return "" if percent is None else f"{SHADES[shade]}{percent:3.0f}"

        return Column(f"{n // 1024}k" if n >= 1024 else str(n), cell, TEXT)

    columns = [octave(n) for n in sorted({cell.n for cell in plane.cells})]
    rows = sorted({cell.m for cell in plane.cells})
    kind = f"{plane.dtype} {plane.layout}, epilogue {plane.epilogue}, all K together"
    return Table(
        "Percent of the roof by M and N",
        [Column("M \\ N", lambda m: f"{m}+", TEXT), *columns],
        rows,
        lines=[Line("", f"{kind}; medians of octaves")],
    )


def _near(answer: NearAnswer, device: str, *, every: bool) -> Iterator[Table]:
    held = answer.found
    gap = f"this is the nearest that it holds, {answer.octaves:.1f} octaves away"
    absent = f"The map does not hold {answer.wanted.text}; {gap}."
    lead = [] if answer.exact else [Line("", absent)]
    cluster = f", cluster {held.cluster}" if held.cluster else ""
    stages = f", {plural(held.stages, 'stage')}" if held.stages else ""
    others = f"; also {held.others}" if held.others else ""
    cold, warm = time_text(held.cold_us * 1e3), time_text(held.warm_us * 1e3)
    rate = f"{held.tflops:.3g} TFLOP/s, {held.roof_percent:.0f}% of the {held.roof} roof"
    kernel = Line("KERNEL", f"{held.short}{cluster}{stages}{others}")
    time = Line("TIME", f"{cold} with L2 empty, {warm} with it filled; {rate}")
    yield Table(f"{held.matmul.text} on an {device}", lines=[*lead, kernel, time])
    yield bulleted("Why this kernel", answer.why)
    if answer.tiles and every:
        yield Table("Tiles that similar matmuls get, on this one", _TILES, answer.tiles)
    if answer.against_partner:
        other = "The same work the other way round (N and K exchanged)"
        yield bulleted(other, answer.against_partner)
    if every and answer.by_rows:
        title = "As M grows: the rows that were measured with each kernel"
        yield Table(title, _RANGES, answer.by_rows)
