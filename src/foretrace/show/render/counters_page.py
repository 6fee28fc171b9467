"""The document of `foretrace counters` as text: what was joined, then one row a kernel."""

from __future__ import annotations

from foretrace.base.units import DASH, bytes_text, count_text, percent_text, time_text
from foretrace.schema.documents.counters import CountedKernel, CountersDocument, LevelBytes
from foretrace.show.overview.counter_document import level_text, rate_text, reached_text
from foretrace.show.render.terminal import WIDTH, Column, Section, filled, fitted, listing

ROWS = 12
_BOUND = {"at_least": "≥ ", "at_most": "≤ ", "estimate": "≈ "}  # by certainty
MORE = "more: --all (a sentence for each kernel, every level, roofs, how it was counted)"


def page(
    document: CountersDocument, *, every: bool, width: int = WIDTH, more: str = MORE
) -> list[Section]:
    """What was joined and one row a kernel; `every` adds the rest."""
    if every:
        return _everything(document)
    return fitted(lambda rows: [*_screen(document, rows), Section("", [more])], ROWS, width)


def _screen(document: CountersDocument, rows: int) -> list[Section]:
    against = document.against
    title = " · ".join(filter(None, [document.trace, document.device]))
    found = [Section(title, document.sentences)]
    if against is not None:
        found.append(Section(f"Against {against.path}", against.sentences))
    rest = max(len(document.kernels) - rows, 0)
    after = f"… and {count_text(rest)} more kernels (--all)" if rest else ""
    table = listing("Per launch", document.kernels[:rows], _COLUMNS, left=(0, 7), after=after)
    return [*found, *([table] if table.rows else [])]


def _must_move(one: CountedKernel) -> str:
    bound = "" if one.must_move is None else _BOUND.get(one.certainty or "", "")
    return bound + bytes_text(one.must_move)


def _nearest(one: CountedKernel) -> str:
    near = next((roof for roof in one.roofs if roof.level == one.nearest), None)
    if near is None:
        return ""
    tensor = near.level.startswith("tensor")
    return f"{percent_text(near.share)} {near.level if tensor else level_text(near.level)}"


_COLUMNS: dict[str, Column] = {
    "kernel": lambda one: one.kernel + ("" if one.joined == one.launches else "*"),
    "n": "launches",
    "time": lambda one: time_text(one.time_ns if one.time_ns is not None else one.ncu_ns),
    "HBM read": lambda one: bytes_text(one.bytes.hbm_read),
    "written": lambda one: bytes_text(one.bytes.hbm_written),
    "L2": lambda one: bytes_text(one.bytes.l2),
    "must move": _must_move,
    "nearest roof": _nearest,
}


def _everything(document: CountersDocument) -> list[Section]:
    head = ("per launch", "L1", "L2", "L2 lookups", "between partitions", "shared", "kept in L2")
    rows = [[one.kernel, *_cells(one.bytes)] for one in document.kernels]
    rows.append(["all launches together", *_cells(document.total.bytes)])
    after = (
        "L2: between multiprocessors and L2. Lookups: with what passes between the partitions of "
        "L2. Kept in L2: read by multiprocessors and not from HBM."
    )
    bullets = [
        (one.kernel, "; ".join(reached_text(roof) for roof in one.roofs))
        for one in document.kernels
        if one.roofs
    ]
    lines = [
        (f"{run.path}: {run.joined:,} of {run.launches:,} joined", run.command or DASH)
        for run in document.runs
    ]
    told = []
    for one in document.kernels:
        by, apart = f", {one.op}" if one.op else "", " (not joined to the trace)"
        told.append((f"{one.kernel}{by}{'' if one.joined else apart}", one.text))
    used = {roof.level for one in document.kernels for roof in one.roofs}
    of_roofs: dict[str, Column] = {
        "level": lambda roof: level_text(roof.level),
        "roof": lambda roof: rate_text(roof.per_second, roof.level),
        "from": lambda roof: roof.source,
    }
    roofs = [roof for roof in document.roofs if roof.level in used]
    return filled(
        [
            *_screen(document, len(document.kernels)),
            Section("Kernel by kernel", bullets=told),
            Section("Traffic by level", head=head, rows=rows, after=after),
            Section("Rates beside the roofs", bullets=bullets),
            listing("Roofs", roofs, of_roofs, left=(0, 2)),
            Section("How it was counted", bullets=lines),
            Section("Notes", document.notes),
        ]
    )


def _cells(levels: LevelBytes) -> list[str]:
    parts = (levels.l1, levels.l2, levels.l2_lookups, levels.l2_fabric, levels.shared)
    return [bytes_text(part) for part in (*parts, levels.kept_in_l2)]
