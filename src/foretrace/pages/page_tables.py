"""Tables and lines as a page draws them: what the terminal prints, the values by which rows are
sorted, and what a click on a row leads to. Pages of tables alone: of a history, of what
`foretrace try` measured, and of what `foretrace why` says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, convert
from msgspec.structs import replace

from foretrace.base import tables
from foretrace.base.tables import BULLET, WORDS, Column, Line, Table
from foretrace.base.terminal import plain
from foretrace.base.units import count_text, plural, time_text
from foretrace.check.documents import CheckDocument
from foretrace.compare import history
from foretrace.pages.page import code_text, page
from foretrace.read.tried import KEPT, TriedFix, TryDocument
from foretrace.record.lab_documents import LadderDocument, MarkedClaim, SetupRow
from foretrace.record.tries import lines as try_lines
from foretrace.trace.trace import Trace
from foretrace.why import explain
from foretrace.why import lines as why_lines
from foretrace.why.documents import Why

MOST_KERNELS = 100  # with their code; the table has all
TOP_ROWS = 1_000  # rows of a table


class ColumnData(Struct, frozen=True):
    """The head of a column; one that is not `first` goes where there is no room."""

    name: str
    unit: str
    first: bool


class Bar(Struct, frozen=True, omit_defaults=True):
    """A time with its interval, in nanoseconds; `kind` is a word for its colour."""

    at: float
    low: float
    high: float
    kind: str = ""


class TableData(Struct, frozen=True, omit_defaults=True):
    """A `base.tables.Table`: each line is a label, a text and a text below it.

    `to` says what each row leads to: `event 12`, `kernel 3`, `search aten::mm`, `finding gaps`. A
    row may have a bar; `base` is what all bars are compared with. A table that is `folded` (closed,
    open) opens by its title. In one with `heat` shares colour their cells.
    """

    title: str
    columns: list[ColumnData]
    cells: list[list[str]]
    values: list[list[float | None]]
    lines: list[tuple[str, str, str]] = []
    more: str = ""
    code: str = ""
    to: list[str] = []
    bars: list[Bar] = []
    base: float = 0.0
    folded: str = ""
    heat: bool = False


class TablesPage(Struct, frozen=True):
    """What the script reads: a head, and tables below it."""

    head: TableData
    tables: list[TableData]
    kind: str = "tables"


def shown(
    table: Table,
    *,
    to: Sequence[str] = (),
    bars: Sequence[Bar] = (),
    base: float = 0.0,
    folded: str = "",
    heat: bool = False,
) -> TableData:
    """A table as the script reads it."""
    found = convert(tables.data(table), TableData)
    more = {"to": [*to], "bars": [*bars], "base": base, "folded": folded, "heat": heat}
    return replace(found, code=code_text(table.code), **more)


def filled(given: Iterable[Table]) -> list[TableData]:
    """Those that have anything below their titles."""
    return [shown(each) for each in given if each.filled]


def history_html(document: history.HistoryDocument) -> str:
    """The page of a history."""
    top, *rest = history.page(document, every=True, bars=True)
    return page("history", TablesPage(shown(top), filled(rest)))


def try_html(document: TryDocument) -> str:
    """The page of what `foretrace try` measured."""
    return page(f"try {plain(os.path.basename(document.script))}", tries(document))


def tries(document: TryDocument) -> TablesPage:
    """What is drawn of a result; the folders it was made in stay behind."""
    if (patch := document.patch) is not None:
        patch = replace(patch, path=os.path.basename(patch.path))
    named = replace(document, script=os.path.basename(document.script), patch=patch)
    head, table, *rest = try_lines.parts(named)
    fixes, base = try_lines.measured(document), document.baseline
    columns = [*table.columns]
    if columns:
        state = columns.pop()

        def write(fix: TriedFix) -> str:
            """What to write for a fix that was kept, else its state and why."""
            kept = fix.state == KEPT
            return f"kept; write `{fix.write}`" if kept else str(state.value(fix))

        columns.append(Column("", write, WORDS))
    bars = []
    for fix in fixes:
        median = fix.median_ns or 0.0
        bars.append(Bar(median, fix.low_ns or median, fix.high_ns or median, fix.state))
    key = f"Dashed: the untouched script, {time_text(base.median_ns)}."
    key = f"Time per step; the thin line is the interval of the median. {key}"
    drawn = Table("Fixes that were tried", columns, table.rows, key)
    patches = [Table("The patch", code=patch.diff)] if patch and patch.diff else []
    bar_table = [shown(drawn, bars=bars, base=base.median_ns)] if fixes else []
    return TablesPage(shown(head), [*bar_table, *filled(rest), *map(shown, patches)])


def why_html(why: Why) -> str:
    """The page of what `foretrace why` says."""
    return page(plain(why_lines.title(why)), why_tables(why))


def why_tables(why: Why) -> TablesPage:
    """Kernels that take most time come first; each opens to its source beside its code."""
    ordered = why_lines.by_cost(why)
    _, *rest = why_lines.sections(why, {"stages", "kernels", "breaks", "cost"}, TOP_ROWS)
    kernels, opened = [], next((row for row in ordered if row.language), None)
    for row in ordered[:MOST_KERNELS]:
        about = why_lines.kernel_page(why, row)[0]
        sources = [Line(BULLET, line.place, f"`{line.code}`") for line in row.sources]
        lines = [*sources, *about.lines]
        table = Table(why_lines.kernel_title(row), lines=lines, code=row.code)
        kernels.append(shown(table, folded="open" if row is opened else "closed"))
    left = len(ordered) - len(kernels)
    more = f"{plural(left, 'more kernel')} in the table alone." if left > 0 else ""
    about = Table("Kernels: source and generated code", more=more)
    apart = filled(why_lines.not_fused(why, TOP_ROWS))
    return TablesPage(shown(why_lines.head(why)), [*apart, shown(about), *kernels, *filled(rest)])


def compiled_code(trace: Trace) -> TablesPage | None:
    """What `why` says of a trace; None without the compiler's logs beside it."""
    run = trace.compiler_records.run
    return None if run is None else why_tables(explain(run, trace))


_SIGNS = {"hit": "✓", "miss": "✗", "unknown": "?", "error": "!"}


def predictions_table(found: CheckDocument) -> TableData:
    """Predictions and whether they came true."""
    columns = (
        Column("guess", "text", WORDS),
        Column("verdict", lambda row: f"{_SIGNS[row.verdict]} {row.verdict}", WORDS),
        *(Column(name, name, WORDS) for name in ("measured", "expected", "why")),
    )
    score = f"{found.hits} hit, {found.misses} missed, {found.unknown} unknown (not in the trace)."
    return shown(Table("Predictions", columns, found.guesses, lines=[Line("", score)]))


_OUTCOMES = {"holds": "✓", "does not hold": "✗", "holds on the A100": "≠", "imprecise": "~"}
_OUTCOMES |= {"inconclusive": "?"}


def ladder_tables(climb: LadderDocument) -> list[TableData]:
    """How many claims have each outcome, what each setup changed, and every claim."""

    def counted(counts: Mapping[str, int]) -> str:
        return ", ".join(f"{name} {count}" for name, count in counts.items() if count)

    def said(row: MarkedClaim) -> str:
        return f'"{row.sentence}" ({row.source})' if row.sentence else row.source

    def changed(row: SetupRow) -> str:
        return " ".join(row.changed)

    others = {"the commentaries": climb.commentaries, "found here": climb.found}
    apart = "".join(f"; {who}: {counted(each)}" for who, each in others.items() if counted(each))
    where = f"{climb.source}: {climb.device or 'no device named'}, torch {climb.torch or 'unknown'}"
    score = f"{plural(len(climb.claims), 'claim')}: {counted(climb.outcomes)}{apart}."
    setups = (
        Column("setup", "setup", WORDS),
        Column("what changed", changed, WORDS),
        Column("what stayed the same", lambda row: " ".join(row.same), WORDS),
    )
    claims = (
        Column("sentence", said, WORDS),
        Column("claim", "number", WORDS),
        Column("outcome", lambda row: f"{_OUTCOMES.get(row.outcome, '')} {row.outcome}", WORDS),
        Column("setup", "setup", WORDS),
        Column("prediction", "guess", WORDS),
        *(Column(name, name, WORDS) for name in ("measured", "why")),
        *(Column(name, name, WORDS, first=False) for name in ("program", "correction")),
    )
    return [
        shown(Table("Ladder", setups, climb.article, lines=[Line("", where), Line("", score)])),
        shown(
            Table(f"{count_text(len(climb.claims))} claims", claims, climb.claims), folded="closed"
        ),
    ]
