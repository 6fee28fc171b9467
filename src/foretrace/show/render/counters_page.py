"""The document of `foretrace counters` as text: what was joined, then one row a kernel."""

from __future__ import annotations

from foretrace.base.units import DASH, bytes_text, count_text, percent_text, time_text
from foretrace.schema.documents.counters import CountedKernel, CountersDocument, LevelBytes
from foretrace.show.overview.counter_document import level_text, rate_text, reached_text
from foretrace.show.render.terminal import WIDTH, Section, filled, fitted

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
    shown = document.kernels[:rows]
    head = ("kernel", "n", "time", "HBM read", "written", "L2", "must move", "nearest roof")
    rest = max(len(document.kernels) - rows, 0)
    after = f"… and {count_text(rest)} more kernels (--all)" if rest else ""
    cells = [_row(one) for one in shown]
    table = Section("Per launch", head=head, rows=cells, left=(0, 7), after=after)
    return [*found, *([table] if shown else [])]


def _row(one: CountedKernel) -> list[str]:
    time = time_text(one.time_ns if one.time_ns is not None else one.ncu_ns)
    levels = (one.bytes.hbm_read, one.bytes.hbm_written, one.bytes.l2)
    bound = "" if one.must_move is None else _BOUND.get(one.certainty or "", "")
    near = next((roof for roof in one.roofs if roof.level == one.nearest), None)
    share = "" if near is None else f"{percent_text(near.share)} {_short(near.level)}"
    mark = "" if one.joined == one.launches else "*"
    return [
        one.kernel + mark,
        count_text(one.launches),
        time,
        *map(bytes_text, levels),
        bound + bytes_text(one.must_move),
        share,
    ]


def _short(level: str) -> str:
    return level if level.startswith("tensor") else level_text(level)


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
    return filled(
        [
            *_screen(document, len(document.kernels)),
            Section(
                "Kernel by kernel", bullets=[(_name(one), one.text) for one in document.kernels]
            ),
            Section("Traffic by level", head=head, rows=rows, after=after),
            Section("Rates beside the roofs", bullets=bullets),
            _roofs(document),
            Section("How it was counted", bullets=lines),
            Section("Notes", document.notes),
        ]
    )


def _name(one: CountedKernel) -> str:
    by = f", {one.op}" if one.op else ""
    return f"{one.kernel}{by}" + ("" if one.joined else " (not joined to the trace)")


def _cells(levels: LevelBytes) -> list[str]:
    parts = (levels.l1, levels.l2, levels.l2_lookups, levels.l2_fabric, levels.shared)
    return [bytes_text(part) for part in (*parts, levels.kept_in_l2)]


def _roofs(document: CountersDocument) -> Section:
    used = {roof.level for one in document.kernels for roof in one.roofs}
    rows = [
        [level_text(roof.level), rate_text(roof.per_second, roof.level), roof.source]
        for roof in document.roofs
        if roof.level in used
    ]
    return Section("Roofs", head=("level", "roof", "from"), rows=rows, left=(0, 2))
