"""The page of `look` on a folder or zip of traces: a row for each, its largest finding, how far the
ranks lie apart, and what was left out.
"""

from __future__ import annotations

import shlex
from typing import Any

from foretrace.look_set import Overview
from foretrace.model.ranks import Spread, per_step, spreads
from foretrace.render.section import Section
from foretrace.schema.ledger import Note
from foretrace.units import DASH, count_text, percent_text, ratio_text, time_text

Look = dict[str, Any]
GRAVE = ("data_loss", "error")


def sections(overview: Overview) -> list[Section]:
    """The whole page, in reading order."""
    parts = [
        _head(overview),
        _banner(overview),
        _traces(overview),
        _findings(overview),
        _ranks(overview),
    ]
    parts += [_left_out(overview), _notes(overview), _one(overview)]
    return [part for part in parts if part.paragraphs or part.bullets or part.rows]


def _head(overview: Overview) -> Section:
    counts = (
        f"{len(overview.looks)} trace{'s' if len(overview.looks) != 1 else ''} · "
        f"{len(overview.left_out)} left out"
    )
    cards = {_card(look) for look in overview.looks}
    return Section(overview.path, [f"{counts} · {cards.pop()}" if len(cards) == 1 else counts])


def _card(look: Look) -> str:
    arch = f" ({look['trace']['arch']})" if look["trace"]["arch"] else ""
    return f"{look['trace']['device'] or 'no GPU named'}{arch}"


def _banner(overview: Overview) -> Section:
    """What every page made from this set must show."""
    return Section(
        "", bullets=[(f"! {_note(note)}", "") for note in overview.notes if note.severity in GRAVE]
    )


def _traces(overview: Overview) -> Section:
    """The card has a column where the traces differ in it; elsewhere the head names it."""
    several = len({_card(look) for look in overview.looks}) > 1
    head = [
        "trace",
        *(["device"] if several else []),
        "rank",
        "events",
        "steps",
        "kernels",
        "gpu busy",
        "busy",
        "host/step",
    ]
    rows = [
        [
            overview.label(look["trace"]["path"]),
            *([look["trace"]["device"] or DASH] if several else []),
            *_numbers(look),
        ]
        for look in overview.looks
    ]
    return Section("Traces", head=head, rows=rows, left=(0, 1) if several else (0,))


def _numbers(look: Look) -> list[str]:
    trace, totals = look["trace"], look["totals"]
    busy, span = totals["gpu_busy_ns"], totals["gpu_span_ns"]
    return [
        DASH if trace["rank"] is None else str(trace["rank"]),
        count_text(trace["events"]),
        count_text(trace["steps"]),
        count_text(totals["kernels"]),
        time_text(busy),
        percent_text(busy / span if busy is not None and span else None),
        time_text(per_step(look, "cpu_ns")),
    ]


def _worst(look: Look) -> str:
    """The first note above `info`, which is the worst, and how many more there are; `!` where data
    was lost or is wrong.
    """
    notes = [note for note in look["ledger"]["notes"] if note["severity"] != "info"]
    if not notes:
        return "whole"
    more = f" +{len(notes) - 1}" if len(notes) > 1 else ""
    return f"{'! ' if notes[0]['severity'] in GRAVE else ''}{notes[0]['code']}{more}"


def _findings(overview: Overview) -> Section:
    rows = []
    for look in overview.looks:
        found = next((row for row in look["findings"] if row["state"] == "found"), None)
        saving, title = (
            (time_text(found["at_most_ns"]), found["title"]) if found else (DASH, "nothing found")
        )
        rows.append([overview.label(look["trace"]["path"]), _worst(look), title, saving])
    return Section(
        "What reading met, the largest finding, and what mending it could save at most (per step)",
        head=["trace", "ledger", "largest finding", "at most"],
        rows=rows,
        left=(0, 1, 2),
    )


def _ranks(overview: Overview) -> Section:
    found = spreads(overview.looks)
    rows = [
        [
            each.what,
            _amount(each, each.least),
            _rank(each, each.least_rank),
            _amount(each, each.most),
            _rank(each, each.most_rank),
            ratio_text(each.ratio),
        ]
        for each in found
    ]
    waits = (
        "Time in a collective includes waiting for its last rank: a rank with far less of it "
        "keeps the others waiting."
    )
    return Section(
        "Between the ranks, where they differ most first (medians over the steps)",
        head=["", "least", "rank", "most", "rank", "most/least"],
        rows=rows,
        after=waits if any("collectives" in each.what for each in found) else "",
    )


def _amount(spread: Spread, value: float) -> str:
    return time_text(value) if spread.unit == "ns" else count_text(value)


def _rank(spread: Spread, rank: int) -> str:
    # where all have the same, no rank has the least
    return DASH if spread.least == spread.most else str(rank)


def _left_out(overview: Overview) -> Section:
    bullets = [
        (overview.label(each.path), f"{each.text} [{each.code}]") for each in overview.left_out
    ]
    return Section("Left out: no readable traces", bullets=bullets)


def _notes(overview: Overview) -> Section:
    return Section(
        "The set", bullets=[(f"{note.severity}: {_note(note)}", "") for note in overview.notes]
    )


def _note(note: Note) -> str:
    return f"{note.code} ({count_text(note.count)}): {note.text}"


def _one(overview: Overview) -> Section:
    """How to see one of them whole: the first whose reading lost something, else the first."""
    worst = next(
        (look for look in overview.looks if _worst(look).startswith("!")), overview.looks[0]
    )
    return Section("", [f"Look at one: foretrace look {shlex.quote(worst['trace']['path'])}"])
