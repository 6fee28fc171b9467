"""The document of `foretrace worth` as text: the verdict first, then what it rests on."""

from __future__ import annotations

from typing import Any

from foretrace.render.section import Section, drawn, marked
from foretrace.render.shapes import short_reason
from foretrace.units import DASH, count_text, percent_text, ratio_text, span_text, time_text

TIMES = (("a call, all in all", "wall_ns"), ("host time", "host_ns"), ("GPU time", "gpu_ns"))


def worth_text(document: dict[str, Any], *, bold: bool = False) -> str:
    """For a terminal; `bold` marks the headings."""
    return drawn(_sections(document), bold=bold)


def worth_markdown(document: dict[str, Any]) -> str:
    """For a page: the same."""
    return marked(_sections(document))


def _sections(document: dict[str, Any]) -> list[Section]:
    tried = [mode for mode in document["modes"] if not mode["failed"]]
    found = [Section(_heading(document), [document["verdict"]["text"]])]
    if len(document["modes"]) > 1:
        found.append(
            Section(
                "Mode by mode", bullets=[(mode["mode"], mode["text"]) for mode in document["modes"]]
            )
        )
    found += [
        _times(tried),
        _costs(tried),
        *(section for mode in tried for section in _of_mode(mode, len(document["shapes"]))),
        Section("Notes", [*_circumstances(document), *document["notes"]]),
    ]
    return [section for section in found if section.rows or section.bullets or section.paragraphs]


def _heading(document: dict[str, Any]) -> str:
    kind = [document["dtype"]] if document["dtype"] else []
    return f"Is torch.compile worth it for {document['subject']}? " + ", ".join(
        [document["device"], f"torch {document['torch']}", *kind]
    )


def _times(tried: list[dict[str, Any]]) -> Section:
    rows = [
        [
            mode["mode"],
            name,
            time_text(mode[key]["a"]),
            time_text(mode[key]["b"]),
            ratio_text(mode[key]["ratio"]),
            percent_text(mode[key]["noise"]),
        ]
        for mode in tried
        for name, key in TIMES
        if mode[key]["a"] is not None
    ]
    head = ("mode", "", "eager", "compiled", "ratio", "noise")
    return Section("Per call, without the profiler", head=head, rows=rows, left=(0, 1))


def _costs(tried: list[dict[str, Any]]) -> Section:
    rows = [
        [
            mode["mode"],
            time_text(mode["compile_s"] * 1e9),
            span_text(mode["cost_s"]),
            count_text(mode["graphs"]),
            count_text(mode["recompiles"]),
            count_text(sum(mode["graph_breaks"].values())),
            DASH if mode["break_even_calls"] is None else count_text(mode["break_even_calls"]),
        ]
        for mode in tried
    ]
    head = (
        "mode",
        "compiling",
        "first calls",
        "graphs",
        "recompiled",
        "graph breaks",
        "paid after",
    )
    return Section(
        "Once, over all shapes",
        head=head,
        rows=rows,
        after="First calls: beyond warm ones. Paid after: calls.",
    )


def _of_mode(mode: dict[str, Any], shapes: int) -> list[Section]:
    name = mode["mode"]
    changed = [(f"+ {text}", "") for text in mode["changed"]] + [
        (f"= {text}", "") for text in mode["unchanged"]
    ]
    rows = (
        [
            [
                stay["shape"],
                time_text(stay["stall_ns"]),
                time_text(stay["wall_ns"]["a"]),
                time_text(stay["wall_ns"]["b"]),
                ratio_text(stay["wall_ns"]["ratio"]),
                "; ".join(short_reason(why) for why in stay["recompiles"] + stay["gave_up"]),
            ]
            for stay in mode["shapes"]
        ]
        if shapes > 1
        else []
    )
    breaks = [(f"{why} ({count_text(count)})", "") for why, count in mode["graph_breaks"].items()]
    head = ("shape", "stall", "eager", "compiled", "ratio", "compiled again because")
    return [
        Section(
            f"{name}: what a call does otherwise (+) and as before (=), from traces of both",
            bullets=changed,
        ),
        Section(f"{name}: graph breaks", bullets=breaks),
        Section(f"{name}: shape after shape", head=head, rows=rows, left=(0, 5)),
    ]


def _circumstances(document: dict[str, Any]) -> list[str]:
    cache = (
        "The compiler's cache was used as it was found, which hides compile time."
        if document["compiler_cache"] == "kept"
        else "Each mode began with an empty compiler's cache."
    )
    return [
        f"{cache} Starting the compiler took {time_text(document['compiler_start_ns'])} and is "
        "not counted."
    ]
