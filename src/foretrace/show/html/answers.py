"""What a page answers before any click: what bounds a step, what to do first, where the time goes.

Everything is read off the document of `look --json` and the lines of the first screen: a page draws
it and computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from foretrace.analyze.fixes import as_uncertain
from foretrace.model.trace import Trace
from foretrace.schema.documents.look import Composition, FixEntry, GroupRow, Look
from foretrace.show.overview.composition import RECORDING, of_recording
from foretrace.show.overview.groups import group_rows
from foretrace.show.overview.on_cpu import COMPUTES, cpu_groups
from foretrace.show.overview.page import Overview, folded
from foretrace.show.overview.predictions import code_in, next_fix
from foretrace.show.render.terminal import plain

ROWS = 6  # of where the time goes
FILTERS_GROUPS, BETWEEN = "= ", " | "  # as `web/src/core/flame.ts` reads them
NOTHING = "the trace has no step whose time a fix could shorten"
FIX = "fix_"  # before the name of a fix, where a page names what is selected


class FixCard(Struct, frozen=True):
    """A fix: what to do, why, what to write, and the step with it; `key` names it on a page.

    Without a replay there is no time of a step, and `at_most_ns` bounds the saving, where that is
    known. `label` is the word of the first screen, `after_ns` the step with the first fix as well,
    as uncertain as the more uncertain of the two.
    """

    key: str
    order: str
    why: str
    code: str
    label: str = ""
    needs: str = ""
    risk: str = ""
    ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    after_ns: float | None = None
    after_low_ns: float | None = None
    after_high_ns: float | None = None
    at_most_ns: float | None = None
    events: tuple[int, ...] = ()


class WhereRow(Struct, frozen=True):
    """Where time goes: a group, or the rest; `filter` leaves its work alone on the timeline."""

    name: str
    ns: int
    share: float
    count: int | float
    limited_by: str
    filter: str


class Basis(Struct, frozen=True):
    """What the time of one step (call, recording) is made of, and its groups."""

    per: str
    composition: Composition
    rows: list[WhereRow]


class Answers(Struct, frozen=True):
    """The three answers. `word` and `text` are the verdict, `first` and `then` the lines of the
    first screen (`first` also says that there is nothing to do), `bases` the step and the
    recording; one of them where there is only one.
    """

    word: str
    text: str
    first: str
    then: str
    cards: list[FixCard]
    bases: list[Basis]


def answers(trace: Trace, overview: Overview) -> Answers:
    """The answers of one trace."""
    look, lines = overview.look, overview.lines
    verdict = look.verdict
    word = next((line.label for line in lines if line.text == verdict.text), "UNKNOWN")
    first = next((line.text for line in lines if line.label == "DO FIRST"), verdict.first)
    bases = [basis for basis in _bases(trace, look) if basis is not None]
    first = first.replace(" (--findings)", "") or NOTHING  # that is an option of the terminal
    told = plain(verdict.text), plain(first), plain(verdict.then)
    return Answers(word.removesuffix("-BOUND"), *told, list(_cards(look)), bases)


def _cards(look: Look) -> Iterator[FixCard]:
    """Fixes in the order of the terminal, each once; below them what only bounds a saving."""
    then = next_fix(look.fixes)
    ordered = [*look.fixes[:1], *([then] if then else [])]
    labels = dict(zip((fix.name for fix in ordered), ("DO FIRST", "THEN"), strict=False))
    ordered += [fix for fix in look.fixes if fix.name not in labels]
    yield from (_card(fix, labels.get(fix.name, ""), look.fixes[0]) for fix in ordered)
    if look.fixes:
        return
    orders = [text for text in (look.verdict.first, look.verdict.then) if text]
    for at, text in enumerate(orders):
        order, _, why = plain(text).partition(": ")
        row = next((row for row in look.findings if row.fix and text.startswith(row.fix)), None)
        bound = None if row is None or look.cpu else row.at_most_ns
        events = () if row is None else tuple(row.events)
        named = ("DO FIRST", "THEN")[at]
        key = f"{FIX}{at}"
        yield FixCard(key, order, why, code_in(order), named, at_most_ns=bound, events=events)


def _card(fix: FixEntry, label: str, first: FixEntry) -> FixCard:
    after: tuple[float | None, float | None] = None, None
    if fix.after_ns is not None:
        after = as_uncertain(fix.after_ns, (first, fix))
    times = fix.ns, fix.low_ns, fix.high_ns, fix.after_ns, *after
    said = plain(fix.order), plain(fix.why), plain(fix.code), label, plain(fix.first)
    return FixCard(f"{FIX}{fix.name}", *said, plain(fix.risk), *times, None, fix.events)


def _bases(trace: Trace, look: Look) -> Iterator[Basis | None]:
    made = look.composition
    if made is None:
        return
    if look.cpu:
        yield Basis(made.per, made, [_where(row, _cpu_filter(look, row)) for row in _cpu(look)])
        return
    yield _basis(trace, made, look.groups)
    if made.per != RECORDING:
        whole = of_recording(trace)
        yield None if whole is None else _basis(trace, whole, group_rows(trace))


def _basis(trace: Trace, made: Composition, groups: Sequence[GroupRow]) -> Basis:
    rows, known = six(groups), trace.grouped.names
    rest = [row.name for row in groups if row not in rows]
    names = [[row.name] if row in groups else rest for row in rows]
    filters = [
        FILTERS_GROUPS + BETWEEN.join(plain_group(name, known) for name in each) for each in names
    ]
    return Basis(made.per, made, [_where(*each) for each in zip(rows, filters, strict=True)])


def six(groups: Sequence[GroupRow]) -> list[GroupRow]:
    """Six rows at most, the rest as one."""
    return list(groups) if len(groups) <= ROWS else folded(groups, ROWS - 1)


def _cpu(look: Look) -> list[GroupRow]:
    return six(cpu_groups(look.cpu))


def _cpu_filter(look: Look, row: GroupRow) -> str:
    """Ops that compute are on the timeline by name."""
    return row.name if any(op.name == row.name and op.does == COMPUTES for op in look.cpu) else ""


def _where(row: GroupRow, filters: str) -> WhereRow:
    said = row.time_ns, row.share, row.count, plain(row.limited_by)
    return WhereRow(plain(row.name), *said, plain(filters))


def plain_group(shown: str, known: Sequence[str]) -> str:
    """The group of a shown name: `GEMM` of `GEMM, M=8`, `attention` of `attention (FA2)`."""
    fits = [
        name for name in known if shown == name or shown.startswith((f"{name}, M=", f"{name} ("))
    ]
    return max(fits, key=len, default=shown)
