"""What was not fused, as the document has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from foretrace.analyze.why.assemble import graph_name, parts
from foretrace.analyze.why.boundaries import across_breaks
from foretrace.analyze.why.elsewhere import OtherRun
from foretrace.analyze.why.ran import Ran
from foretrace.analyze.why.reasons import grouped, not_fused
from foretrace.analyze.why.refusals import REASONS
from foretrace.schema.compiler import (
    Compilation,
    CompilerRun,
    Elsewhere,
    RefusalGroup,
    Separation,
)
from foretrace.schema.documents.why import NotFused, ReasonRow


def separated(
    run: CompilerRun, ran: Ran, other: CompilerRun | None = None
) -> tuple[list[NotFused], list[ReasonRow]]:
    """Each pair of neighbours that stays apart, and all refusals by reason, largest saving first.

    `other` is another run of the same program: what it made of each pair.
    """
    pairs: list[NotFused] = []
    groups: list[RefusalGroup] = []
    measured, second = ran.measured, OtherRun(other) if other else None
    broken = across_breaks(run, measured)
    for each in run.compilations:
        found = not_fused(each, measured)
        groups += grouped(each, found, measured)
        made = [second.made_of(one, each) if second else None for one in found]
        pairs += _entries(each, zip(found, made, strict=True))
        behind = [one for one in broken if one.compilation == each.id]
        groups += _of_breaks(behind)
        pairs += _entries(each, ((one, None) for one in behind))
        broken = tuple(one for one in broken if one.compilation != each.id)
    return pairs, _rows(groups)


def _of_breaks(broken: Sequence[Separation]) -> Iterator[RefusalGroup]:
    """Graph breaks as a group: the fusion log knows nothing of them."""
    held: dict[tuple[str, str], list[Separation]] = {}
    for one in broken:
        held.setdefault((one.a, one.shared[0].name if one.shared else ""), []).append(one)
    for rows in held.values():
        again = len(rows) - 1  # what is read behind a break several times was written once
        moved, spent = _sum(one.bytes for one in rows), _sum(one.b_ns for one in rows)
        written = (rows[0].shared[0].bytes or 0) * again if rows[0].shared else 0
        first = max((one.a_ns for one in rows if one.a_ns is not None), default=None)
        less = None if moved is None else max(moved - written, 0)
        yield RefusalGroup("graph_break", 0, 0, 0, len(rows), less, _sum([first, spent]))


def _entries(
    each: Compilation, found: Iterable[tuple[Separation, Elsewhere | None]]
) -> Iterator[NotFused]:
    graphs = [graph_name(part) for part in parts(each)]
    for one, made in found:
        yield NotFused(
            one.a,
            one.b,
            REASONS.get(one.reason, one.reason),
            one.inductor,
            one.at_most_ns,
            one.reason,
            one.bytes,
            one.compilation,
            graphs[one.graph] if one.graph < len(graphs) else "",
            list(one.sources),
            one.refusals,
            list(one.shared),
            one.produced,
            one.a_target,
            one.b_target,
            one.a_index,
            one.b_index,
            list(one.a_sizes),
            list(one.b_sizes),
            one.b_compilation,
            one.stopped_at,
            each.rank,
            made,
        )


def _rows(groups: Iterable[RefusalGroup]) -> list[ReasonRow]:
    """The groups of all compilations, one row for a reason."""
    by_reason: dict[str, list[RefusalGroup]] = {}
    for group in groups:
        by_reason.setdefault(group.reason, []).append(group)
    rows = [
        ReasonRow(
            REASONS.get(reason, reason),
            reason,
            sum(each.lines for each in held),
            sum(each.pairs for each in held),
            sum(each.fused_later for each in held),
            sum(each.separations for each in held),
            _sum(each.bytes for each in held),
            _sum(each.at_most_ns for each in held),
        )
        for reason, held in by_reason.items()
    ]
    return sorted(rows, key=lambda row: (-(row.at_most_ns or 0), -(row.bytes or 0), -row.refusals))


def _sum(amounts: Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
