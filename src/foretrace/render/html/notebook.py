"""Results in a notebook: tables and a small timeline as HTML and SVG, without a script.

Importing this module registers how each result is drawn; a notebook then calls `_repr_html_`. Every
name is escaped; nothing refers to anything outside the cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from foretrace.comparison import Comparison
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.overview import look
from foretrace.overview.sentences import headline
from foretrace.render.html.timeline import Timeline
from foretrace.render.look_page import note_text
from foretrace.render.safe import plain
from foretrace.schema.display import draws
from foretrace.schema.documents.look import FindingEntry, Look
from foretrace.schema.finding import Finding, Findings
from foretrace.schema.tables import KINDS
from foretrace.schema.verdict import Verdict, Verdicts
from foretrace.units import DASH, count_text, percent_text, ratio_text, time_text

WIDTH, ROW, GAP = 800, 10, 6
MOST_BOXES, MOST_ROWS = 800, 10
_SIGN = {"hit": "✓", "miss": "✗", "unknown": "?"}
_SIGN |= {"found": "●", "clear": "○", "skipped": "–", "crashed": "✕"}
_ORDER = ("found", "crashed", "skipped", "clear")
_FILL = {
    "kernel": "#7fb2f0",
    "cpu_op": "#b9cbe4",
    **dict.fromkeys(("gpu_memcpy", "gpu_memset"), "#c3c9d2"),
    **dict.fromkeys(("cuda_runtime", "cuda_driver"), "#f0b3a0"),
    **dict.fromkeys(("user_annotation", "gpu_user_annotation"), "#d9c7f7"),
}


@draws(Trace)
def trace_html(trace: Trace) -> str:
    """The overview, with a picture of the typical step."""
    return _overview(look(trace), timeline_svg(trace), findings=False)


@draws(Look)
def look_html(document: Look) -> str:
    """The summary, the most expensive kernels, and what the rules found."""
    return _overview(document, "", findings=True)


def _overview(document: Look, picture: str, *, findings: bool) -> str:
    trace = document.trace
    title = f"{os.path.basename(trace.path)}: {headline(document)}"
    notes = [f"<strong>! {_text(note_text(note))}</strong>" for note in document.ledger.banner]
    summary = [_text(title), *notes, *map(_text, document.sentences)]
    text = "".join(f"<p>{line}</p>" for line in summary)
    found = findings_html(document.findings) if findings else ""
    return f"<div>{text}{picture}{_kernels(document)}{found}</div>"


def _kernels(document: Look) -> str:
    rows = []
    for row in document.kernels[:MOST_ROWS]:
        cost = [count_text(row.count), time_text(row.total_ns), time_text(row.median_ns)]
        rows.append([row.short or row.name, row.role, *cost, row.bound])
    return _table(["kernel", "role", "launches", "total", "median", "bound"], rows)


@draws(Comparison)
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


@draws(Findings)
def findings_html(findings: Iterable[Finding | FindingEntry]) -> str:
    """Findings, those worth reading first."""
    ordered = sorted(findings, key=lambda each: (_ORDER.index(each.state), -(each.at_most_ns or 0)))
    rows = [
        [f"{_SIGN[each.state]} {each.state}", each.title, each.detail, time_text(each.at_most_ns)]
        for each in ordered
    ]
    return _table(["", "finding", "detail", "saves at most"], rows)


@draws(Finding)
def finding_html(finding: Finding) -> str:
    """One finding, as a table of one row."""
    return findings_html([finding])


@draws(Verdicts)
def verdicts_html(verdicts: Iterable[Verdict]) -> str:
    """How predictions fared."""
    rows = []
    for each in verdicts:
        found = (each.measured or DASH, each.expected or DASH, each.why)
        rows.append([f"{_SIGN[each.verdict]} {each.verdict}", each.text, *found])
    return _table(["", "prediction", "measured", "expected", "why"], rows)


@draws(Verdict)
def verdict_html(verdict: Verdict) -> str:
    """One verdict, as a table of one row."""
    return verdicts_html([verdict])


def timeline_svg(trace: Trace) -> str:
    """The typical step or the whole recording, without what is narrower than a pixel."""
    timeline = Timeline(trace)
    if not len(timeline):
        return ""
    step = None if timeline.typical_step is None else timeline.steps[timeline.typical_step]
    start, end = (step.start, step.last) if step else (0, timeline.end_ns)
    scale = WIDTH / max(end - start, 1)
    rows = timeline.between(start, end)
    rows = rows[timeline.length[rows] * scale >= 1]
    rows = rows[np.argsort(-timeline.length[rows], kind="stable")[:MOST_BOXES]]
    tops = np.cumsum([0, *(lane.rows * ROW + GAP for lane in timeline.lanes)])
    boxes = "".join(_box(trace, timeline, row, start, scale, tops) for row in rows.tolist())
    label = _text(f"{time_text(end - start)} of {step.name if step else 'the recording'}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {int(tops[-1])}" width="{WIDTH}" style="max-width:100%" '
        f'role="img" aria-label="{label}">{boxes}</svg><p>{label}</p>'
    )


def _box(trace: Trace, timeline: Timeline, row: int, start: int, scale: float, tops: Ints) -> str:
    host, event = trace.host, int(timeline.event[row])
    x = max((int(timeline.start[row]) - start) * scale, 0)
    width = min(int(timeline.length[row]) * scale, WIDTH - x)
    y = int(tops[timeline.lane[row]]) + int(timeline.row[row]) * ROW
    words = f"{host.names[host.name[event]]}: {time_text(int(timeline.length[row]))}"
    fill = _FILL.get(KINDS[host.kind[event]], "#d5dae0")
    shape = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" fill="{fill}"'
    return f"<rect {shape}><title>{_text(words)}</title></rect>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{_text(text)}</th>" for text in head)
    body = "".join(
        f"<tr>{''.join(f'<td><bdi>{_text(cell)}</bdi></td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return escape(plain(text), quote=True)
