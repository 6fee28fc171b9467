"""Results in a notebook: tables and a small timeline as HTML and SVG, without a script; and views,
which are pages in a frame.

Importing this module registers how each result is drawn and printed; a notebook then calls
`_repr_html_`. Every name is escaped; nothing refers to anything outside the cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from html import escape

import numpy as np

from foretrace.base.display import DRAWINGS, TEXTS, VIEWS, View
from foretrace.base.tables import text
from foretrace.base.terminal import plain
from foretrace.base.units import DASH, count_text, percent_text, plural, ratio_text, time_text
from foretrace.check.lines import verdicts_text
from foretrace.check.verdict import Verdict, Verdicts
from foretrace.compare import Comparison
from foretrace.compare.lines import comparison_text
from foretrace.look import look
from foretrace.look.documents import Finding, Findings, Look
from foretrace.look.lines import first_screen, headline
from foretrace.look.measured_step import saving_text
from foretrace.pages.page import read
from foretrace.pages.report import report
from foretrace.pages.timeline import Timeline, edges
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace

MOST_ROWS = 10
# of a view: near 1 MB in the notebook's file; the page says what it leaves out
MOST_EVENTS = 100_000
HEIGHTS = {"timeline": 760, "roofline": 860, "flame": 640}  # pixels
_SIGN = {"hit": "✓", "miss": "✗", "unknown": "?"}
_SIGN |= {"found": "●", "crashed": "✕", "skipped": "–", "clear": "○"}  # worth reading first


def _view(only: str, *traces: Trace) -> View:
    """The timeline, the roofline or the flame graphs of one trace or several."""
    names = ", ".join(plain(os.path.basename(trace.path)) for trace in traces)
    text = report(traces, only=only, most_events=MOST_EVENTS * len(traces))
    return View(f"{only} of {names}", text, HEIGHTS[only])


def trace_html(trace: Trace) -> str:
    """The overview, with a picture of the typical step."""
    return look_html(look(trace), timeline_svg(trace), findings=False)


def look_html(document: Look, picture: str = "", *, findings: bool = True) -> str:
    """The summary, the most expensive kernels, and what the rules found."""
    trace = document.trace
    title = f"{os.path.basename(trace.path)}: {headline(document)}"
    said = [f"TRUST: {each.text}" for each in document.trust]
    if document.overview is not None:
        said = document.overview.sentences
    summary = [_text(title), *map(_text, said)]
    text = "".join(f"<p>{line}</p>" for line in summary)
    found = findings_html(document.findings) if findings else ""
    rows = []
    for row in document.kernels[:MOST_ROWS]:
        cost = [count_text(row.count), time_text(row.total_ns), time_text(row.median_ns)]
        rows.append([row.short or row.name, row.role, *cost, row.bound])
    kernels = _table(["kernel", "role", "launches", "total", "median", "bound"], rows)
    return f"<div>{text}{picture}{kernels}{found}</div>"


def comparison_html(found: Comparison) -> str:
    """What changed, what stayed, and the three times."""
    times = (("GPU busy", found.gpu_ns), ("host", found.cpu_ns), ("wall", found.wall_ns))
    rows = []
    for label, value in times:
        ratio, noise = ratio_text(value.ratio), percent_text(value.noise)
        rows.append([label, time_text(value.a), time_text(value.b), ratio, noise])
    lists = "".join(
        f"<p>{title}</p><ul>{''.join(f'<li>{_text(text)}</li>' for text in texts)}</ul>"
        for title, texts in (("Changed", found.changed), ("Unchanged", found.unchanged))
        if texts
    )
    return f"<div>{_table(['median per repeat', 'A', 'B', 'B / A', 'noise'], rows)}{lists}</div>"


def findings_html(findings: Iterable[Finding]) -> str:
    """Findings, those worth reading first."""
    order = [*_SIGN]
    ordered = sorted(findings, key=lambda each: (order.index(each.state), -(each.at_most_ns or 0)))
    rows = [
        [f"{_SIGN[each.state]} {each.state}", each.title, each.detail, saving_text(each)]
        for each in ordered
    ]
    return _table(["", "finding", "detail", "saves"], rows)


def verdicts_html(verdicts: Iterable[Verdict]) -> str:
    """How predictions fared."""
    rows = []
    for each in verdicts:
        found = (each.measured or DASH, each.expected or DASH, each.why)
        rows.append([f"{_SIGN[each.verdict]} {each.verdict}", each.text, *found])
    return _table(["", "prediction", "measured", "expected", "why"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{_text(text)}</th>" for text in head)
    body = "".join(
        f"<tr>{''.join(f'<td><bdi>{_text(cell)}</bdi></td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return escape(plain(text), quote=True)


WIDTH, STRIP, ROW, GAP, LABEL = 800, 36, 9, 5, 12  # pixels
MOST_DEEP = 6  # of a thread


def timeline_svg(trace: Trace) -> str:
    """A picture of the typical step, or of the whole recording without steps, and a line that says
    what it is.
    """
    timeline = Timeline(trace)
    if not len(timeline):
        return ""
    step = None if timeline.typical_step is None else timeline.steps[timeline.typical_step]
    start, end = (step.start, step.last) if step else (0, timeline.end_ns)
    end = max(end, start + 1)
    # an annotation on the GPU keeps nothing busy
    work = timeline.group != timeline.groups.index("gpu_user_annotation")

    def on_gpu(number: int, moments: Ints) -> dict[int, Ints]:
        """Busy ns of one GPU between these moments, by group."""
        own = np.array([lane.gpu_number == number for lane in timeline.lanes])
        return timeline.bands(np.flatnonzero(own[timeline.lane] & work)).pixels(moments)

    shapes, top, pixels = list[str](), 0, edges(start, end, WIDTH)

    def draw(name: str, height: int, bands: dict[int, Ints]) -> None:
        nonlocal top, shapes
        if name:
            shapes.append(f'<text x="0" y="{top + LABEL - 3}">{_text(name)}</text>')
            top += LABEL
        shapes += _stacked(bands, timeline.groups, top + height, height, (end - start) / WIDTH)
        top += height + (GAP if height == STRIP else 1)

    # a strip for each GPU, the rows of its streams, and those of the threads that launch
    shares = dict[int, float]()
    for at, lane in enumerate(timeline.lanes):
        if lane.gpu_number is not None and lane.gpu_number not in shares:
            busy = on_gpu(lane.gpu_number, np.array([start, end])).values()
            shares[lane.gpu_number] = sum(int(each.sum()) for each in busy) / (end - start)
            draw(lane.label.split(" · ")[0], STRIP, on_gpu(lane.gpu_number, pixels))
        if not lane.gpu and not lane.launches:
            continue
        for number in range(lane.rows if lane.gpu else min(lane.rows, MOST_DEEP)):
            mine = np.flatnonzero((timeline.lane == at) & (timeline.row == number))
            draw("" if number else lane.label, ROW, timeline.bands(mine).pixels(pixels))
    threads = [lane for lane in timeline.lanes if not lane.gpu]
    idle = sum(not lane.launches for lane in threads)
    deeper = sum(max(lane.rows - MOST_DEEP, 0) for lane in threads if lane.launches)
    left = [plural(idle, "thread") + " without launches"] if idle else []
    left += [plural(deeper, "row") + " of deeper calls"] if deeper else []
    below = f". Not drawn: {', '.join(left)}; trace.plot() shows them" if left else ""
    said = f": GPU busy {', '.join(map(percent_text, shares.values()))}" if shares else ""
    label = _text(f"{time_text(end - start)} of {step.name if step else 'the recording'}{said}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" style="max-width:100%" font-size="10" '
        f'fill="#5b6675" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
        f"<p>{label}{_text(below)}</p>"
    )


def _stacked(
    bands: dict[int, Ints], groups: list[str], bottom: int, height: int, pixel_ns: float
) -> Iterator[str]:
    """One shape a group, upon those before it: as high in each pixel as that is busy."""
    low = np.zeros(WIDTH)
    for group, busy in bands.items():
        high = low + busy / pixel_ns * height
        moved = (np.diff(low, prepend=-1.0) != 0) | (np.diff(high, prepend=-1.0) != 0)
        begins = np.flatnonzero(moved)
        ends = np.append(begins[1:], WIDTH)
        path = "".join(
            f"M{x} {bottom - low[x]:.5g}H{to}V{bottom - high[x]:.5g}H{x}z"
            for x, to in zip(begins.tolist(), ends.tolist(), strict=True)
            if high[x] > low[x]
        )
        words = _text(f"{groups[group]}: {time_text(int(busy.sum()))}")
        yield f'<path fill="{_fill(groups[group])}" d="{path}"><title>{words}</title></path>'
        low = high


@cache
def _colours() -> dict[str, str]:
    """The colours of the pages, light."""
    light = read("page.css").partition("{")[2].partition("}")[0]
    pairs = (line.partition(":") for line in light.split(";"))
    return {name.strip().removeprefix("--"): colour.strip() for name, _, colour in pairs}


def _fill(group: str) -> str:
    name = "accent" if group.endswith("annotation") else group.replace("_", "-")
    return _colours().get(name, _colours()["other"])


def look_text(document: Look) -> str:
    """The first screen; the document as it is where it was read from JSON."""
    found = document.overview
    return text(first_screen(found)) if found is not None else repr(document)


def found_text(findings: Findings) -> str:
    """What was found, in lines; then how many rules found nothing."""
    found = [each for each in findings if each.state == "found"]
    lines = [f"{plain(each.title)}\n  {plain(each.detail)}" for each in found]
    return "\n".join([*lines, f"{len(findings) - len(found)} rules found nothing"])


VIEWS.update({name: partial(_view, name) for name in HEIGHTS})
DRAWINGS |= {
    Trace: trace_html,
    Look: look_html,
    Comparison: comparison_html,
    Findings: findings_html,
    Finding: lambda finding: findings_html([finding]),
    Verdicts: verdicts_html,
    Verdict: lambda verdict: verdicts_html([verdict]),
}
TEXTS[Look] = look_text
TEXTS[Comparison] = lambda found: comparison_text(found, MOST_ROWS)
TEXTS[Verdicts] = verdicts_text
TEXTS[Findings] = found_text
