"""The ladder's document as text: claims by rung, each miss explained, and the article's table."""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict

from foretrace.render.safe import markdown, plain
from foretrace.render.section import WIDTH
from foretrace.render.table import table
from foretrace.schema.documents.ladder import LadderDocument, MarkedClaim, SetupRow
from foretrace.units import count_text, plural

MARKS = {"hit": "holds", "miss": "does not hold", "unknown": "inconclusive"}
_TABLE = "The article's table"
_WHERE = re.compile(r" \(call \d+ of [^()]*\)$")  # every call of a region lacks the same data
# What a verdict is explained with; Markdown has a column for what was measured.
_NOTES = {
    "hit": ("correction",),
    "unknown": ("why",),
    "miss": ("measured", "claimed because", "why", "correction"),
}


def climb_summary(document: LadderDocument) -> str:
    """The first screen: how many claims hold, by rung, and which do not."""
    counts = Counter((claim.rung, claim.verdict) for claim in document.claims)
    names = dict.fromkeys(claim.rung for claim in document.claims)
    rows = [[name, *(count_text(counts[name, verdict]) for verdict in MARKS)] for name in names]
    misses = dict.fromkeys(claim.number for claim in document.claims if claim.verdict == "miss")
    lines = [heading(document), score(document), table(["rung", *MARKS.values()], rows)]
    if misses:
        lines.append(wrapped(f"does not hold: {', '.join(misses)}", "  ", "    "))
    if document.skipped:
        lines.append(f"  {plural(len(document.skipped), 'setup')} skipped")
    return "\n".join([*lines, "", "more: --all (each claim, why, and what each setup changed)"])


def climb_text(document: LadderDocument) -> str:
    """For a terminal: every claim."""
    parts = [f"{heading(document)}\n{score(document)}"]
    setups = _setups(document)
    for rung, claims in _by_rung(document).items():
        known = [claim for claim in claims if claim.verdict != "unknown"]
        lines = [line for claim in known for line in _claim(claim, setups[id(claim)])]
        parts.append("\n".join([rung, *lines, *_inconclusive(claims)]))
    parts += ["\n".join(["Skipped", *skipped_lines(document)])] if document.skipped else []
    parts.append(f"{_TABLE}: setup, what changed (+), what stayed the same (=)")
    return "\n\n".join([*parts, *map(_row, document.article)])


def heading(document: LadderDocument) -> str:
    """Where the climb ran."""
    where = f"{plain(document.device)}, torch {plain(document.torch)}"
    return f"The ladder ({document.source}): {where}"


def score(document: LadderDocument) -> str:
    """How many claims hold."""
    counts, claims = document.counts, len(document.claims)
    held = f"{counts.hit} hold, {counts.miss} do not hold, {counts.unknown} inconclusive here"
    return f"{claims} claims: {held}"


def skipped_lines(document: LadderDocument) -> list[str]:
    """One line for each reason."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for entry in document.skipped:
        reasons[entry.why].append(entry.setup)
    return [wrapped(f"{why} ({'; '.join(names)})", "  ", "    ") for why, names in reasons.items()]


def _by_rung(document: LadderDocument) -> dict[str, list[MarkedClaim]]:
    rungs: defaultdict[str, list[MarkedClaim]] = defaultdict(list)
    for claim in document.claims:
        rungs[claim.rung].append(claim)
    return rungs


def _setups(document: LadderDocument) -> dict[int, str]:
    """For each claim the variant and the sizes; the recording too where two have the same."""
    same = Counter(_key(claim) for claim in document.claims)
    return {
        id(claim): claim.setup.removeprefix(f"{claim.rung} ")
        + (f" ({claim.recording})" if same[_key(claim)] > 1 else "")
        for claim in document.claims
    }


def _key(claim: MarkedClaim) -> tuple[str, ...]:
    return claim.number, claim.setup, claim.guess


def _claim(claim: MarkedClaim, setup: str) -> list[str]:
    """One line for a claim that holds; a miss adds what was measured, why, and the correction."""
    first = f"{MARKS[claim.verdict]:<14} {claim.number:<3} {setup}: {claim.guess}"
    notes = (wrapped(f"{name}: {text}", " " * 21, " " * 23) for name, text in _notes(claim))
    return [wrapped(first, "  ", " " * 21), *notes]


def _inconclusive(claims: list[MarkedClaim]) -> list[str]:
    """The inconclusive claims, one line for each reason."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for claim in claims:
        if claim.verdict == "unknown":
            reasons[_WHERE.sub("", claim.why)].append(claim.number)
    lines = (f"{', '.join(dict.fromkeys(numbers))}: {why}" for why, numbers in reasons.items())
    return [wrapped(f"{MARKS['unknown']:<14} {line}", "  ", " " * 17) for line in lines]


def _notes(claim: MarkedClaim) -> list[tuple[str, str]]:
    texts = (claim.measured, claim.reason, claim.why, claim.correction)
    notes = zip(_NOTES["miss"], texts, strict=True)
    return [(name, text) for name, text in notes if name in _NOTES[claim.verdict] and text]


def _row(row: SetupRow) -> str:
    sentences = [f"+ {text}" for text in row.changed] + [f"= {text}" for text in row.same]
    return "\n".join([plain(row.setup), *(wrapped(text, "  ", "    ") for text in sentences)])


def wrapped(text: str, first: str, rest: str) -> str:
    """Safe text in lines of a terminal's width."""
    return textwrap.fill(
        plain(text), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def climb_markdown(document: LadderDocument) -> str:
    """For a page: the same, as tables."""
    parts, setups = [f"# {markdown(heading(document))}", f"{score(document)}."], _setups(document)
    head = ("claim", "source", "setup", "prediction", "here", "measured", "explanation")
    for rung, claims in _by_rung(document).items():
        rows = [_claim_cells(claim, setups[id(claim)]) for claim in claims]
        parts.append(_page_table(markdown(rung), head, rows))
    if document.skipped:
        lines = [f"- {markdown(each.setup)}: {markdown(each.why)}" for each in document.skipped]
        parts.append("\n".join(["## Skipped", "", *lines]))
    rows = [_row_cells(row) for row in document.article]
    parts.append(_page_table(_TABLE, ("setup", "what changed", "what stayed the same"), rows))
    return "\n\n".join(parts)


def _claim_cells(claim: MarkedClaim, setup: str) -> tuple[str, ...]:
    notes = [
        f"{name.capitalize()}: {text.rstrip('.')}."
        for name, text in _notes(claim)
        if name != "measured"
    ]
    cells = (claim.number, claim.source, setup, claim.guess, MARKS[claim.verdict], claim.measured)
    return tuple(markdown(text) for text in (*cells, " ".join(notes)))


def _row_cells(row: SetupRow) -> tuple[str, ...]:
    lists = ("<br>".join(markdown(text) for text in texts) for texts in (row.changed, row.same))
    return (markdown(row.setup), *lists)


def _page_table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([f"## {title}", "", lines[0], f"|{'---|' * len(head)}", *lines[1:]])
