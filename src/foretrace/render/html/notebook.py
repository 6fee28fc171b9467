"""Results in a notebook: tables and a small timeline as plain HTML and SVG, without a script
(notebooks strip them).

    trace_html(trace)  look_html(look(trace))  comparison_html(compare(a, b))
                                               findings_html(findings)  verdicts_html(verdicts)

These objects call them when a notebook shows them (`_repr_html_`). Every name is escaped; nothing
refers to anything outside the cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from foretrace.comparison import Comparison
from foretrace.model.trace import Trace
from foretrace.render.html.timeline import Timeline
from foretrace.render.safe import plain
from foretrace.schema.display import draws
from foretrace.schema.finding import Finding
from foretrace.schema.tables import KINDS
from foretrace.schema.verdict import Verdict
from foretrace.units import DASH, count_text, percent_text, ratio_text, time_text

WIDTH, ROW, GAP = 800, 10, 6
MOST_BOXES, MOST_ROWS = 800, 10
_KERNEL_HEAD = ("kernel", "role", "launches", "total", "median", "bound")
_SIGN = {
    "hit": "✓",
    "miss": "✗",
    "unknown": "?",
    "found": "●",
    "clear": "○",
    "skipped": "–",
    "crashed": "✕",
}
_FILL = {
    "kernel": "#7fb2f0",
    "gpu_memcpy": "#c3c9d2",
    "gpu_memset": "#c3c9d2",
    "cpu_op": "#b9cbe4",
    "cuda_runtime": "#f0b3a0",
    "cuda_driver": "#f0b3a0",
    "user_annotation": "#d9c7f7",
    "gpu_user_annotation": "#d9c7f7",
}


def trace_html(trace: Trace) -> str:
    """What a trace is, its costliest kernels, and a picture of its typical step."""
    facts = [
        trace.about.device or "no GPU named",
        f"{count_text(trace.event_count)} events",
        f"{count_text(int(trace.gpu.is_kernel.sum()))} kernels",
        f"{len(trace.spans.steps)} steps",
    ]
    notes = "".join(
        f"<p><strong>! {_text(note.text)} ({note.code}, {count_text(note.count)})</strong></p>"
        for note in trace.ledger.banner
    )
    cases = trace.kernel_cases.sort("total_ns", descending=True, nulls_last=True).head(MOST_ROWS)
    rows = [
        [
            row["short"] or row["name"],
            row["role"],
            count_text(row["count"]),
            time_text(row["total_ns"] if row["timed"] else None),
            time_text(row["median_ns"]),
            row["bound"],
        ]
        for row in cases.iter_rows(named=True)
    ]
    table = _table(_KERNEL_HEAD, rows)
    title = f"{os.path.basename(trace.path)}: {' · '.join(facts)}"
    return f"<div><p>{_text(title)}</p>{notes}{timeline_svg(trace)}{table}</div>"


def look_html(document: Mapping[str, Any]) -> str:
    """The document of `foretrace look`: what ran, its costliest kernels, and what the rules found."""
    trace, totals = document["trace"], document["totals"]
    counts = [f"{count_text(totals[name])} {name}" for name in ("kernels", "memcpys", "memsets")]
    busy = f"GPU busy {time_text(totals['gpu_busy_ns'])}"
    facts = [trace["device"] or "no GPU named", *counts, busy, f"{trace['steps']} steps"]
    rows = [
        [
            row["short"] or row["name"],
            row["role"],
            count_text(row["count"]),
            time_text(row["total_ns"]),
            time_text(row["median_ns"]),
            row["bound"],
        ]
        for row in document["kernels"][:MOST_ROWS]
    ]
    title = f"{os.path.basename(trace['path'])}: {' · '.join(facts)}"
    findings = findings_html(Finding(**entry) for entry in document["findings"])
    return f"<div><p>{_text(title)}</p>{_table(_KERNEL_HEAD, rows)}{findings}</div>"


@draws(Comparison)
def comparison_html(found: Comparison) -> str:
    """What changed, what stayed, and the three times."""
    times = (("GPU busy", found.gpu_ns), ("host", found.cpu_ns), ("wall", found.wall_ns))
    rows = [
        [
            label,
            time_text(value.a),
            time_text(value.b),
            ratio_text(value.ratio),
            percent_text(value.noise),
        ]
        for label, value in times
    ]
    lists = "".join(
        f"<p>{title}</p><ul>{''.join(f'<li>{_text(text)}</li>' for text in texts)}</ul>"
        for title, texts in (("Changed", found.changed), ("Unchanged", found.unchanged))
        if texts
    )
    return f"<div>{_table(['median per repeat', 'A', 'B', 'B / A', 'noise'], rows)}{lists}</div>"


def findings_html(findings: Iterable[Finding]) -> str:
    """Findings, those worth reading first."""
    order = {"found": 0, "crashed": 1, "skipped": 2, "clear": 3}
    sorted_ = sorted(
        findings, key=lambda finding: (order[finding.state], -(finding.at_most_ns or 0))
    )
    rows = [
        [f"{_SIGN[each.state]} {each.state}", each.title, each.detail, time_text(each.at_most_ns)]
        for each in sorted_
    ]
    return _table(["", "finding", "detail", "saves at most"], rows)


def verdicts_html(verdicts: Iterable[Verdict]) -> str:
    """How predictions fared."""
    rows = [
        [
            f"{_SIGN[each.verdict]} {each.verdict}",
            each.text,
            each.measured or DASH,
            each.expected or DASH,
            each.why,
        ]
        for each in verdicts
    ]
    return _table(["", "prediction", "measured", "expected", "why"], rows)


def timeline_svg(trace: Trace) -> str:
    """The typical step (or the whole recording), threads above, streams below; what is narrower
    than a pixel is left out.
    """
    timeline = Timeline(trace)
    if not len(timeline):
        return ""
    at = timeline.typical_step
    start, end = (
        (0, timeline.end_ns)
        if at is None
        else (timeline.steps[at]["start"], timeline.steps[at]["last"])
    )
    scale = WIDTH / max(end - start, 1)
    rows = timeline.between(start, end)
    rows = rows[timeline.length[rows] * scale >= 1]
    rows = rows[np.argsort(-timeline.length[rows], kind="stable")[:MOST_BOXES]]
    tops = np.cumsum([0, *(lane.rows * ROW + GAP for lane in timeline.lanes)])
    boxes = "".join(_box(trace, timeline, row, start, scale, tops) for row in rows.tolist())
    label = (
        f"{time_text(end - start)} of "
        f"{'the recording' if at is None else timeline.steps[at]['name']}"
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {int(tops[-1])}" width="{WIDTH}" style="max-width:100%" '
        'role="img" '
        f'aria-label="{_text(label)}">{boxes}</svg><p>{_text(label)}</p>'
    )


def _box(trace: Trace, timeline: Timeline, row: int, start: int, scale: float, tops: Any) -> str:
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
