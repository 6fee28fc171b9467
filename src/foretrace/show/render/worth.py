"""The document of `foretrace worth` as text: the verdict, what it rests on, the rest on demand."""

from __future__ import annotations

from foretrace.base.units import (
    DASH,
    count_text,
    percent_text,
    plural,
    ratio_text,
    span_text,
    time_text,
)
from foretrace.schema.documents.worth import CompiledShape, CompileMode, WorthDocument
from foretrace.show.render.section import WIDTH, Section, drawn, marked
from foretrace.show.render.shapes import short_reason

LINES = 25  # of the first screen
MORE = "more: --all (each mode, each shape, what changed, notes)"
STATES = {"worth": "WORTH IT", "not worth": "NOT WORTH IT", "unknown": "INCONCLUSIVE"}
STATES["failed"] = "CANNOT BE COMPILED"


def worth_text(
    document: WorthDocument, *, everything: bool = False, width: int = WIDTH, bold: bool = False
) -> str:
    """For a terminal: the verdict and what it rests on; `everything` adds all that was measured."""
    if everything:
        return drawn([*_screen(document), *_rest(document)], width=width, bold=bold)
    changed = [f"+ {text}" for mode in document.modes[:1] for text in _changed(mode)]
    while True:
        lines = [Section("", bullets=[(text, "") for text in changed])] if changed else []
        page = [*_screen(document), *lines, Section("", [MORE])]
        if not changed or drawn(page, width=width).count("\n") < LINES:
            return drawn(page, width=width, bold=bold)
        changed = changed[:-1]


def worth_markdown(document: WorthDocument) -> str:
    """For a page: everything."""
    return marked([*_screen(document), *_rest(document)])


def _screen(document: WorthDocument) -> list[Section]:
    """The verdict, then one row a mode."""
    tried = [mode for mode in document.modes if not mode.failed]
    where = [document.device, f"torch {document.torch}", document.dtype]
    title = " · ".join(filter(None, [document.subject, *where]))
    verdict, state = document.verdict, STATES[document.verdict.state]
    text = verdict.text
    if text.upper().startswith(f"{state}: "):
        text = text[len(state) + 2 :]
    head = ["per call", "eager", "compiled", "ratio", "noise", "first calls", "break-even"]
    rows = []
    for mode in tried:
        wall, calls = mode.wall_ns, mode.break_even_calls
        change = (time_text(wall.a), time_text(wall.b), ratio_text(wall.ratio))
        once = (span_text(mode.cost_s or 0), plural(calls, "call") if calls is not None else DASH)
        rows.append([mode.mode, *change, percent_text(wall.noise), *once])
    return [Section(title, labelled=[(state, text)], head=head, rows=rows)]


def _rest(document: WorthDocument) -> list[Section]:
    tried = [mode for mode in document.modes if not mode.failed]
    bullets = [(mode.mode, mode.text) for mode in document.modes] if len(document.modes) > 1 else []
    found = [
        Section("Mode by mode", bullets=bullets),
        _times(tried),
        _costs(tried),
        *(section for mode in tried for section in _of_mode(mode, len(document.shapes))),
        Section("Notes", [_circumstances(document), *document.notes]),
    ]
    return [section for section in found if section.rows or section.bullets or section.paragraphs]


def _changed(mode: CompileMode) -> list[str]:
    return [] if mode.failed else mode.changed


def _times(tried: list[CompileMode]) -> Section:
    rows = []
    for mode in tried:
        times = {"wall time": mode.wall_ns, "host time": mode.host_ns, "GPU time": mode.gpu_ns}
        for name, ns in times.items():
            if ns.a is not None:
                change = (time_text(ns.a), time_text(ns.b), ratio_text(ns.ratio))
                rows.append([mode.mode, name, *change, percent_text(ns.noise)])
    head = ("mode", "", "eager", "compiled", "ratio", "noise")
    return Section("Per call, without the profiler", head=head, rows=rows, left=(0, 1))


def _costs(tried: list[CompileMode]) -> Section:
    rows = []
    for mode in tried:
        breaks = sum(mode.graph_breaks.values())
        counts = map(count_text, (mode.graphs, mode.recompiles, breaks, mode.break_even_calls))
        times = (time_text(mode.compile_s * 1e9), span_text(mode.cost_s or 0))
        rows.append([mode.mode, *times, *counts])
    counted = ("graphs", "recompiled", "graph breaks", "break-even")
    head = ("mode", "compiling", "first calls", *counted)
    after = "First calls: their time beyond warm calls. Break-even: number of calls."
    return Section("Once, over all shapes", head=head, rows=rows, after=after)


def _of_mode(mode: CompileMode, shapes: int) -> list[Section]:
    changed = [f"+ {text}" for text in mode.changed] + [f"= {text}" for text in mode.unchanged]
    rows = [_shape(shape) for shape in mode.shapes] if shapes > 1 else []
    breaks = [f"{why} ({count_text(count)})" for why, count in mode.graph_breaks.items()]
    head = ("shape", "stall", "eager", "compiled", "ratio", "recompiled because")
    title = "what changed in a call (+) and what stayed the same (=), from traces of both"
    return [
        Section(f"{mode.mode}: {title}", bullets=[(text, "") for text in changed]),
        Section(f"{mode.mode}: graph breaks", bullets=[(text, "") for text in breaks]),
        Section(f"{mode.mode}: by shape", head=head, rows=rows, left=(0, 5)),
    ]


def _shape(shape: CompiledShape) -> list[str]:
    wall = shape.wall_ns
    times = map(time_text, (shape.stall_ns, wall.a, wall.b))
    reasons = "; ".join(short_reason(why) for why in shape.recompiles + shape.gave_up)
    return [shape.shape, *times, ratio_text(wall.ratio), reasons]


def _circumstances(document: WorthDocument) -> str:
    cache = "Each mode started with an empty compiler cache."
    if document.compiler_cache == "kept":
        cache = "Your own compiler cache was used, which hides compile time."
    started = time_text(document.compiler_start_ns)
    return f"{cache} The start of the compiler ({started}) is not counted."
