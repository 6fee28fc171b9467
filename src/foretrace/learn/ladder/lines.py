"""The ladder's document as text: every claim with its sentence, its outcomes and what was measured,
and the article's table.
"""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from foretrace.base.patterns import regex
from foretrace.base.terminal import WIDTH, layout, markdown, plain
from foretrace.base.units import count_text, plural
from foretrace.record.lab_documents import LadderDocument, MarkedClaim, UnmarkedClaim

_TABLE = "The article's table"
_WHERE = regex(r" \(call \d+ of [^()]*\)$")  # every call of a region lacks the same data
_PLURAL = {
    "holds": "hold",
    "does not hold": "do not hold",
    "holds on the A100": "hold on the A100",
    "inconclusive": "inconclusive here",
}
_UNDER = " " * 26  # below what follows the longest outcome


def climb_summary(document: LadderDocument) -> str:
    """The first screen: how many claims have each outcome, by rung, and which do not hold."""
    said = [claim for claim in document.claims if claim.said_by == "articles"]
    counts = Counter((claim.rung, claim.outcome) for claim in said)
    names = dict.fromkeys(claim.rung for claim in said)
    rows = [
        [name, *(count_text(counts[name, outcome]) for outcome in document.outcomes)]
        for name in names
    ]
    lines = [_head(document), layout(["rung", *document.outcomes], rows)]
    every: list[MarkedClaim | UnmarkedClaim] = [*document.claims, *document.unmarked]
    for outcome in document.outcomes:
        if outcome not in ("holds", "inconclusive"):
            lines += _numbers(outcome, _of(every, "articles", outcome))
    for outcome in document.outcomes:
        lines += _numbers(f"commentaries, {outcome}", _of(every, "commentaries", outcome))
    lines += _numbers("found here", _of(every, "foretrace"))
    if document.skipped:
        lines.append(f"  {plural(len(document.skipped), 'setup')} skipped")
    return "\n".join([*lines, "", "more: --all (each claim, its sentence, and what was measured)"])


def _of(
    claims: Iterable[MarkedClaim | UnmarkedClaim], said_by: str, outcome: str = ""
) -> list[MarkedClaim | UnmarkedClaim]:
    return [each for each in claims if each.said_by == said_by and outcome in ("", each.outcome)]


def _numbers(word: str, claims: list[MarkedClaim | UnmarkedClaim]) -> list[str]:
    numbers = ", ".join(dict.fromkeys(claim.number for claim in claims))
    return [wrapped(f"{word}: {numbers}", "  ", "    ")] if numbers else []


def climb_text(document: LadderDocument) -> str:
    """For a terminal: every claim; those that hold in one line."""
    parts = [_head(document)]
    for rung, claims in _by(document.claims, "rung").items():
        known = [claim for claim in claims if claim.verdict != "unknown"]
        numbers = _by(known, "number").values()
        held = [each for each in numbers if all(one.outcome == "holds" for one in each)]
        lines = [
            wrapped(f"holds  {each[0].number:<3} {each[0].claim}", "  ", " " * 13) for each in held
        ]
        missed = (
            [one for one in each if one.outcome != "holds"] for each in numbers if each not in held
        )
        others = ["\n".join(_entry(each)) for each in missed]
        reasons: defaultdict[str, list[str]] = defaultdict(list)
        for claim in claims:
            if claim.verdict == "unknown":
                reasons[_WHERE.sub("", claim.why)].append(claim.number)
        lines += [
            wrapped(f"inconclusive   {', '.join(dict.fromkeys(each))}: {why}", "  ", " " * 17)
            for why, each in reasons.items()
        ]
        parts += ["\n".join([rung, *lines]), *others]
    if document.unmarked:
        lines = [line for claim in document.unmarked for line in _unmarked(claim)]
        parts.append("\n".join(["What no trace of one setup decides", *lines]))
    skipped = [
        wrapped(f"{why} ({'; '.join(each.setup for each in same)})", "  ", "    ")
        for why, same in _by(document.skipped, "why").items()
    ]
    parts += ["\n".join(["Skipped", *skipped])] if skipped else []
    parts.append(f"{_TABLE}: setup, what changed (+), what stayed the same (=)")
    for row in document.article:
        sentences = [f"+ {text}" for text in row.changed] + [f"= {text}" for text in row.same]
        lines = [wrapped(text, "  ", "    ") for text in sentences]
        parts.append("\n".join([plain(row.setup), *lines]))
    return "\n\n".join(parts)


def claim_text(document: LadderDocument) -> str:
    """Each claim in full: sentence, source, program, outcome and what was measured."""
    marked = [_entry(claims, full=True) for claims in _by(document.claims, "number").values()]
    others = [_unmarked(claim, full=True) for claim in document.unmarked]
    others.sort(key=lambda lines: len(lines) > 1)  # one that points to another comes before it
    return "\n".join(line for lines in (*others, *marked) for line in lines)


def _head(document: LadderDocument) -> str:
    counts = [wrapped(line, "", "  ") for line in (score(document), *elsewhere(document))]
    return "\n".join([_heading(document), *counts])


def _heading(document: LadderDocument) -> str:
    where = f"{plain(document.device)}, torch {plain(document.torch)}"
    return f"The ladder ({document.source}): {where}"


def score(document: LadderDocument) -> str:
    """How many predictions of the articles have each outcome; those of others apart."""
    said = _of(document.claims, "articles")
    claims = plural(len({claim.number for claim in said}), "claim")
    apart = {"the commentaries": document.commentaries, "found here": document.found}
    return f"{len(said)} predictions of {claims}: {_apart(document.outcomes, apart)}"


def _apart(said: Mapping[str, int], others: Mapping[str, Mapping[str, int]]) -> str:
    more = [f"; {who}: {_outcomes(found)}" for who, found in others.items() if any(found.values())]
    return f"{_outcomes(said)}{''.join(more)}"


def elsewhere(document: LadderDocument) -> list[str]:
    """How many claims no trace decides, with their outcomes; empty where there is none."""
    rest = [each for each in document.unmarked if not each.see]
    counted = Counter((each.said_by, each.outcome) for each in rest)
    said, commented = (
        {outcome: counted[who, outcome] for outcome in document.outcomes}
        for who in ("articles", "commentaries")
    )
    more = plural(sum(said.values()), "more claim")
    found = _apart(said, {"the commentaries": commented})
    return [f"{more} decided by generated code, sources or other runs: {found}"] if rest else []


def _outcomes(counts: Mapping[str, int]) -> str:
    named = {
        word: word if count == 1 else _PLURAL.get(word, word) for word, count in counts.items()
    }
    return ", ".join(f"{count} {named[word]}" for word, count in counts.items() if count)


def _by(rows: Iterable[Any], field: str) -> dict[str, list[Any]]:
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, field)].append(row)
    return groups


def _entry(claims: list[MarkedClaim], *, full: bool = False) -> list[str]:
    first = claims[0]
    lines = [wrapped(f"{first.number:<3} {first.claim}", "  ", " " * 6)]
    lines.append(wrapped(_said(first), " " * 6, " " * 6))
    for same in _by(claims, "setup").values():
        lines.append(wrapped(f"on {same[0].setup}: {same[0].program}", " " * 6, " " * 8))
        for claim in same:  # one line if it holds; a miss has what was measured, the correction
            text = f"{claim.outcome:<17} {_predicted(claim)}"
            lines.append(wrapped(text, " " * 8, _UNDER))
            notes = {"measured": claim.measured, "the articles' A100": claim.published}
            if claim.verdict != "hit":
                notes["correction"] = claim.correction or claim.why
            elif not full:
                notes = {}
            shown = [f"{name}: {text}" for name, text in notes.items() if text]
            lines += [wrapped(text, _UNDER, f"{_UNDER}  ") for text in shown]
    return lines


def _said(claim: MarkedClaim | UnmarkedClaim) -> str:
    """The sentence and who says it; we know those of the commentaries in substance only."""
    if not claim.sentence:
        return f"found on {claim.source}; the articles do not say it"
    if not claim.where:
        return f"in substance: {claim.sentence} ({claim.source})"
    return f'"{claim.sentence}" ({claim.source}, {claim.where})'


def _predicted(claim: MarkedClaim) -> str:
    return f"{claim.guess} (a: {claim.against})" if claim.against else claim.guess


def _unmarked(claim: UnmarkedClaim, *, full: bool = False) -> list[str]:
    if claim.see:
        return [wrapped(f"{claim.number:<3} {claim.claim}: see {claim.see}", "  ", " " * 6)]
    lines = [wrapped(f"{claim.number:<3} {claim.claim}", "  ", " " * 6)]
    lines += [wrapped(_said(claim), " " * 6, " " * 6)] if full else []
    return [*lines, wrapped(f"{claim.outcome:<17} {claim.decides}", " " * 8, _UNDER)]


def wrapped(text: str, first: str, rest: str) -> str:
    """Safe text in lines of a terminal's width."""
    return textwrap.fill(
        plain(text), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def climb_markdown(document: LadderDocument) -> str:
    """For a page: the same, with a section for each claim."""
    parts = [
        f"# {markdown(_heading(document))}",
        *(f"{line}." for line in (score(document), *elsewhere(document))),
        *claim_pages(document).values(),
    ]
    if document.skipped:
        lines = [f"- {markdown(each.setup)}: {markdown(each.why)}" for each in document.skipped]
        parts.append("\n".join(["## Skipped", "", *lines]))
    if document.article:
        head = ("setup", "what changed", "what stayed the same")
        texts = ((row.setup, row.changed, row.same) for row in document.article)
        rows = [
            (markdown(setup), *("<br>".join(map(markdown, each)) for each in lists))
            for setup, *lists in texts
        ]
        parts += [f"## {_TABLE}", _page_table(head, rows)]
    return "\n\n".join(parts)


def claim_pages(document: LadderDocument) -> dict[str, str]:
    """The page of each number: claim, sentence, source, program, outcome, evidence."""
    marked = {number: _page(claims) for number, claims in _by(document.claims, "number").items()}
    for claim in document.unmarked:
        outcome = f"{claim.outcome}. Decided by {claim.decides}."
        link = f"that of [{claim.see}](#{claim.see.lower()})."
        marked[claim.number] = f"{_page_head(claim)}\n\nOutcome: {link if claim.see else outcome}"
    return marked


def _page(claims: list[MarkedClaim]) -> str:
    parts = [_page_head(claims[0])]
    printed = dict.fromkeys(claim.published for claim in claims if claim.published)
    for same in _by(claims, "setup").values():
        rows = [
            (f"`{_predicted(claim)}`", claim.outcome, markdown(claim.measured or claim.why))
            for claim in same
        ]
        parts.append(f"Program: {same[0].setup}: `{same[0].program}`")
        parts.append(_page_table(("prediction", "outcome", "measured"), rows))
    notes = dict.fromkeys(claim.correction for claim in claims if claim.correction)
    printed_lines = (f"The articles' A100: {markdown(text)}." for text in printed)
    return "\n\n".join([*parts, *printed_lines, *(f"Correction: {note}." for note in notes)])


def _page_head(claim: MarkedClaim | UnmarkedClaim) -> str:
    said = _said(claim)
    said = said.replace(claim.where, f"[{claim.where}]({claim.address})") if claim.where else said
    return f"### {claim.number}\n\n{claim.claim[0].upper()}{claim.claim[1:]}.\n\n> {said}"


def _page_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])
