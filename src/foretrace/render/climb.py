"""The ladder's document as text: the claims rung by rung, each miss explained, and the article's
table at the end.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from typing import Any

from foretrace.render.safe import markdown, plain
from foretrace.render.section import WIDTH

MARKS = {"hit": "holds", "miss": "does not hold", "unknown": "cannot be told"}
_TABLE = "The article's table"
_WHERE = re.compile(r" \(call \d+ of [^()]*\)$")  # every call of a region lacks the same data


def climb_text(document: dict[str, Any]) -> str:
    """For a terminal."""
    parts = [f"{heading(document)}\n{score(document)}"]
    shown = _setups(document)
    for rung, claims in _by_rung(document).items():
        told = [
            line
            for claim in claims
            if claim["verdict"] != "unknown"
            for line in _claim(claim, shown[id(claim)])
        ]
        parts.append("\n".join([rung, *told, *_untold(claims)]))
    parts += ["\n".join(["Skipped", *skipped_lines(document)])] if document["skipped"] else []
    return "\n\n".join([*parts, *_article(document)])


def heading(document: dict[str, Any]) -> str:
    return (
        f"The ladder ({document['source']}): {plain(document['device'])}, torch "
        f"{plain(document['torch'])}"
    )


def score(document: dict[str, Any]) -> str:
    counts = document["counts"]
    return (
        f"{len(document['claims'])} claims: {counts['hit']} hold, {counts['miss']} do not hold, "
        f"{counts['unknown']} cannot be told here"
    )


def skipped_lines(document: dict[str, Any]) -> list[str]:
    """One line for each reason."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for entry in document["skipped"]:
        reasons[entry["why"]].append(entry["setup"])
    return [
        wrapped(f"{why} ({'; '.join(setups)})", "  ", "    ") for why, setups in reasons.items()
    ]


def _article(document: dict[str, Any]) -> list[str]:
    """A title, then one part for each setup."""
    return [
        f"{_TABLE}: setup, what changed (+), what stayed the same (=)",
        *map(_row, document["article"]),
    ]


def _by_rung(document: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    rungs: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for claim in document["claims"]:
        rungs[claim["rung"]].append(claim)
    return rungs


def _setups(document: dict[str, Any]) -> dict[int, str]:
    """For each claim what tells it from others of its number: the way and the sizes; where two
    agree, the recording as well.
    """
    claims = document["claims"]
    alike = Counter(_told(claim) for claim in claims)
    return {
        id(claim): claim["setup"].removeprefix(f"{claim['rung']} ")
        + (f" ({claim['recording']})" if alike[_told(claim)] > 1 else "")
        for claim in claims
    }


def _told(claim: dict[str, str]) -> tuple[str, ...]:
    return claim["number"], claim["setup"], claim["guess"]


def _claim(claim: dict[str, str], setup: str) -> list[str]:
    """One line for a claim that holds; a miss shows what was measured, why it was expected, why it
    missed, what is right.
    """
    first = wrapped(
        f"{MARKS[claim['verdict']]:<14} {claim['number']:<3} {setup}: {claim['guess']}",
        "  ",
        " " * 21,
    )
    return [
        first,
        *(wrapped(f"{name}: {text}", " " * 21, " " * 23) for name, text in _notes(claim)),
    ]


def _untold(claims: list[dict[str, str]]) -> list[str]:
    """The claims that cannot be told here, one line for each reason."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for claim in claims:
        if claim["verdict"] == "unknown":
            reasons[_WHERE.sub("", claim["why"])].append(claim["number"])
    return [
        wrapped(f"{MARKS['unknown']} {', '.join(dict.fromkeys(numbers))}: {why}", "  ", " " * 17)
        for why, numbers in reasons.items()
    ]


def _notes(claim: dict[str, str]) -> list[tuple[str, str]]:
    notes = {
        "measured": claim["measured"],
        "said because": claim["reason"],
        "why": claim["why"],
        "right": claim["correction"],
    }
    wanted = {"hit": ("right",), "unknown": ("why",), "miss": tuple(notes)}[claim["verdict"]]
    return [(name, text) for name, text in notes.items() if name in wanted and text]


def _row(line: dict[str, Any]) -> str:
    sentences = [("+", text) for text in line["changed"]] + [("=", text) for text in line["same"]]
    return "\n".join(
        [
            plain(line["setup"]),
            *(wrapped(f"{sign} {text}", "  ", "    ") for sign, text in sentences),
        ]
    )


def wrapped(text: str, first: str, rest: str) -> str:
    """Safe text in lines of a terminal's width."""
    return textwrap.fill(
        plain(text), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def climb_markdown(document: dict[str, Any]) -> str:
    """For a page: the same, as tables."""
    parts, shown = [f"# {markdown(heading(document))}", f"{score(document)}."], _setups(document)
    for rung, claims in _by_rung(document).items():
        rows = [
            _cells(
                claim["number"],
                claim["source"],
                shown[id(claim)],
                claim["guess"],
                MARKS[claim["verdict"]],
                claim["measured"],
                " ".join(_explained(claim)),
            )
            for claim in claims
        ]
        head = _table_head(
            "claim", "said by", "setup", "prediction", "here", "measured", "explanation"
        )
        parts.append("\n".join([f"## {markdown(rung)}", "", *head, *rows]))
    if document["skipped"]:
        parts.append(
            "\n".join(
                [
                    "## Skipped",
                    "",
                    *(
                        f"- {markdown(entry['setup'])}: {markdown(entry['why'])}"
                        for entry in document["skipped"]
                    ),
                ]
            )
        )
    rows = [_row_cells(line) for line in document["article"]]
    head = _table_head("setup", "what changed", "what stayed the same")
    return "\n\n".join([*parts, "\n".join([f"## {_TABLE}", "", *head, *rows])])


def _explained(claim: dict[str, str]) -> list[str]:
    return [
        f"{name.capitalize()}: {text.rstrip('.')}."
        for name, text in _notes(claim)
        if name != "measured"
    ]


def _row_cells(line: dict[str, Any]) -> str:
    changed, same = (
        "<br>".join(markdown(text) for text in line[name]) for name in ("changed", "same")
    )
    return f"| {markdown(line['setup'])} | {changed} | {same} |"


def _cells(*texts: str) -> str:
    return f"| {' | '.join(markdown(text) for text in texts)} |"


def _table_head(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
