"""The shape question's document as text: a summary, then stalls, compilations and times shape by
shape, then the reasons.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from foretrace.render.section import Section, drawn, marked
from foretrace.units import count_text, ratio_text, time_text

EAGERLY = "*"


def shapes_text(document: dict[str, Any], *, bold: bool = False) -> str:
    """For a terminal; `bold` marks the headings."""
    return drawn(_sections(document), bold=bold)


def shapes_markdown(document: dict[str, Any]) -> str:
    """For a page: the same tables."""
    return marked(_sections(document))


def labels(document: dict[str, Any]) -> list[str]:
    """`8x64x512` for each shape, in the order visited."""
    return ["x".join(str(value) for value in shape.values()) for shape in document["shapes"]]


def _sections(document: dict[str, Any]) -> list[Section]:
    by_shape = [
        _table(
            document,
            "Stall at each new shape: its first three calls, beyond warm ones",
            lambda visit: time_text(visit["stall_ns"]) if visit["stall_ns"] else "none",
        ),
        _table(
            document,
            "Compiled anew",
            lambda visit: count_text(visit["graphs"]) if visit["graphs"] else "",
        ),
        _table(
            document,
            "A warm call",
            _warm,
            "* runs eagerly: Dynamo had given up" if _any_eager(document) else "",
        ),
        _table(
            document,
            f"A warm call over {document['first']}, measured in turns with it (below 1 is faster)",
            _against,
        ),
    ]
    found = [
        Section(_heading(document), _circumstances(document)),
        _summary(document),
        *by_shape,
        _reasons(document),
        Section(
            "Left out",
            bullets=[(f"{entry['name']}: {entry['why']}", "") for entry in document["left_out"]],
        ),
    ]
    return [section for section in found if section.rows or section.bullets or section.paragraphs]


def _heading(document: dict[str, Any]) -> str:
    where = f"{document['device']}, torch {document['torch']}, {document['dtype']}"
    return f"{document['rung']}, {len(document['shapes'])} shapes: {where}"


def _circumstances(document: dict[str, Any]) -> list[str]:
    fixed = ", ".join(
        f"{name} {value}" for name, value in document["fixed"].items() if value is not False
    )
    cache = (
        "with the compiler's cache as it was found, which hides stalls"
        if document["compiler_cache"] == "kept"
        else "with an empty compiler's cache"
    )
    lines = [
        (
            "Each contender visits the shapes in this order, beginning with nothing compiled and "
            f"{cache}."
        )
        + (f" The same everywhere: {fixed}." if fixed else "")
    ]
    if document["compiler_start_ns"] is not None:
        lines.append(
            f"Starting the compiler took {time_text(document['compiler_start_ns'])} and is in no "
            "figure below."
        )
    return lines


def _summary(document: dict[str, Any]) -> Section:
    rows = [
        [
            entry["name"],
            count_text(entry["graphs"]),
            count_text(entry["recompiles"]),
            time_text(entry["stall_ns"]),
            time_text(_mean(entry)),
            entry["what"],
        ]
        for entry in document["contenders"]
    ]
    return Section(
        "In all",
        head=("contender", "graphs", "recompiled", "stalls", "warm call, mean", "what it is"),
        rows=rows,
        left=(0, 5),
        after=_limit(document),
    )


def _limit(document: dict[str, Any]) -> str:
    names = [
        entry["name"]
        for entry in document["contenders"]
        if any(visit["gave_up"] for visit in entry["visits"])
    ]
    if not names:
        return ""
    reasons = dict.fromkeys(
        why
        for entry in document["contenders"]
        for visit in entry["visits"]
        for why in visit["gave_up"]
    )
    return (
        f"Dynamo gave up on {', '.join(names)} ({'; '.join(reasons)}; "
        "torch._dynamo.config.recompile_limit is "
        f"{document['recompile_limit']}) and goes on without compiling: new shapes run eagerly."
    )


def _mean(entry: dict[str, Any]) -> float:
    return float(sum(visit["wall_ns"] for visit in entry["visits"]) / len(entry["visits"]))


def _table(
    document: dict[str, Any], title: str, cell: Callable[[dict[str, Any]], str], after: str = ""
) -> Section:
    columns = document["contenders"]
    rows = [
        [label, *(cell(entry["visits"][at]) for entry in columns)]
        for at, label in enumerate(labels(document))
    ]
    head = (" x ".join(document["shapes"][0]), *(entry["name"] for entry in columns))
    return Section(title, head=head, rows=rows if columns else [], after=after)


def _warm(visit: dict[str, Any]) -> str:
    return time_text(visit["wall_ns"]) + (EAGERLY if visit["compiled"] is False else "")


def _against(visit: dict[str, Any]) -> str:
    """A ratio is told only where it is larger than the noise of the batches."""
    against = visit["against_first"]
    return "as fast" if against["beyond"] is False else ratio_text(against["ratio"])


def _any_eager(document: dict[str, Any]) -> bool:
    return any(
        visit["compiled"] is False for entry in document["contenders"] for visit in entry["visits"]
    )


def _reasons(document: dict[str, Any]) -> Section:
    """Why something was compiled again, one bullet for each contender and reason."""
    told: defaultdict[str, list[str]] = defaultdict(list)
    for entry in document["contenders"]:
        for label, visit in zip(labels(document), entry["visits"], strict=True):
            for why in visit["recompiles"]:
                told[f"{entry['name']} at {label}"].append(short_reason(why))
    return Section(
        "Why it was compiled again",
        bullets=[(where, "; ".join(whys)) for where, whys in told.items()],
    )


def short_reason(why: str) -> str:
    """Dynamo's reason without the number of the frame and without its advice."""
    number, colon, rest = why.partition(": ")
    text = " ".join((rest if colon and number.replace("/", "").isdecimal() else why).split())
    return text.partition(" Guard failed on a parameter, consider")[0].rstrip(".")
