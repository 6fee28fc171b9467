"""Results in a notebook: tables and a small timeline as HTML and SVG, without a script; and views,
which are pages in a frame.

Importing this module registers how each result is drawn; a notebook then calls `_repr_html_`. Every
name is escaped; nothing refers to anything outside the cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from html import escape

from foretrace.analyze.compare import Comparison
from foretrace.base.units import DASH, count_text, percent_text, ratio_text, time_text
from foretrace.model.trace import Trace
from foretrace.schema.display import View, draws, shows
from foretrace.schema.documents.look import FindingEntry, Look
from foretrace.schema.finding import Finding, Findings, Verdict, Verdicts
from foretrace.show.html.report import report
from foretrace.show.html.strip import timeline_svg
from foretrace.show.overview import look
from foretrace.show.overview.measured_step import saving_text
from foretrace.show.overview.sentences import headline
from foretrace.show.render.look_page import note_text
from foretrace.show.render.terminal import plain

MOST_ROWS = 10
MOST_EVENTS = (
    100_000  # of a view: near 1 MB in the notebook's file; the page says what it leaves out
)
HEIGHTS = {"timeline": 760, "roofline": 860, "flame": 640}  # pixels
_SIGN = {"hit": "✓", "miss": "✗", "unknown": "?"}
_SIGN |= {"found": "●", "clear": "○", "skipped": "–", "crashed": "✕"}
_ORDER = ("found", "crashed", "skipped", "clear")


def _view(only: str, *traces: Trace) -> View:
    """The timeline, the roofline or the flame graphs of one trace or several."""
    names = ", ".join(plain(os.path.basename(trace.path)) for trace in traces)
    text = report(traces, only=only, most_events=MOST_EVENTS * len(traces))
    return View(f"{only} of {names}", text, HEIGHTS[only])


for _name in HEIGHTS:
    shows(_name)(partial(_view, _name))


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
    rows = []
    for row in document.kernels[:MOST_ROWS]:
        cost = [count_text(row.count), time_text(row.total_ns), time_text(row.median_ns)]
        rows.append([row.short or row.name, row.role, *cost, row.bound])
    kernels = _table(["kernel", "role", "launches", "total", "median", "bound"], rows)
    return f"<div>{text}{picture}{kernels}{found}</div>"


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
        [f"{_SIGN[each.state]} {each.state}", each.title, each.detail, saving_text(each)]
        for each in ordered
    ]
    return _table(["", "finding", "detail", "saves"], rows)


draws(Finding)(lambda finding: findings_html([finding]))


@draws(Verdicts)
def verdicts_html(verdicts: Iterable[Verdict]) -> str:
    """How predictions fared."""
    rows = []
    for each in verdicts:
        found = (each.measured or DASH, each.expected or DASH, each.why)
        rows.append([f"{_SIGN[each.verdict]} {each.verdict}", each.text, *found])
    return _table(["", "prediction", "measured", "expected", "why"], rows)


draws(Verdict)(lambda verdict: verdicts_html([verdict]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{_text(text)}</th>" for text in head)
    body = "".join(
        f"<tr>{''.join(f'<td><bdi>{_text(cell)}</bdi></td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return escape(plain(text), quote=True)
