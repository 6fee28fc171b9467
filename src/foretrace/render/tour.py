"""The tour: one line per recorded trace, what a climb found in a few lines, and what to try next."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

from foretrace.render.climb import MARKS, heading, score, skipped_lines, wrapped
from foretrace.render.table import table
from foretrace.schema.verdict import VERDICTS
from foretrace.units import count_text, percent_text, time_text

_NEXT = """What to try next
  foretrace look TRACE              who asked for each kernel, what it cost, what it is bound by
  foretrace name KERNEL             what a kernel's name says, part by part
  foretrace compare A B             what changed between two runs, and whether it is worth it
  foretrace check TRACE -g GUESS    mark a prediction, such as "in mlp_fwd: kernels == 5"
Give any of them a trace of your own, or one of these by its path:"""


def next_text(folder: str) -> str:
    """What to try next, and on what."""
    return f"{_NEXT}\n  {folder}"


def tour_text(documents: dict[str, dict[str, Any]]) -> str:
    """A table of all recordings, per step."""
    head = ["recording", "kernels", "memcpys", "memsets", "gpu busy", "host", "idle", "bound"]
    rows = [_row(name, document) for name, document in documents.items()]
    devices = {document["trace"]["device"] for document in documents.values()}
    title = (
        f"{len(documents)} recordings ({', '.join(sorted(map(str, devices)))}), medians per step"
    )
    return f"{title}\n{table(head, rows)}"


def _row(name: str, document: dict[str, Any]) -> list[str]:
    steps = document["steps"] or [{}]
    totals = document["totals"]
    busy, span = totals["gpu_busy_ns"], totals["gpu_span_ns"]
    return [
        name,
        *(count_text(_median(steps, key)) for key in ("kernels", "memcpys", "memsets")),
        time_text(_median(steps, "gpu_busy_ns")),
        time_text(_median(steps, "cpu_ns")),
        percent_text(1 - busy / span if busy is not None and span else None),
        max(
            (step.get("bound", "unknown") for step in steps),
            key=[step.get("bound", "unknown") for step in steps].count,
        ),
    ]


def _median(steps: list[dict[str, Any]], key: str) -> float | None:
    values = [step[key] for step in steps if step.get(key) is not None]
    return median(values) if values else None


def climb_summary(document: dict[str, Any], command: str) -> str:
    """A climb in a few lines; `command` shows all of it."""
    counts = Counter((claim["rung"], claim["verdict"]) for claim in document["claims"])
    names = list(dict.fromkeys(claim["rung"] for claim in document["claims"]))
    rows = [[name, *(count_text(counts[name, verdict]) for verdict in VERDICTS)] for name in names]
    lines = [
        heading(document),
        f"  {score(document)}",
        table(["rung", *(MARKS[verdict] for verdict in VERDICTS)], rows),
    ]
    lines += ["  skipped:", *skipped_lines(document)] if document["skipped"] else []
    misses = [claim for claim in document["claims"] if claim["verdict"] == "miss"]
    lines += ["  what does not hold, and what is right:"] if misses else []
    lines += [
        wrapped(
            f"{claim['number']:<3} {claim['guess']}: {claim['correction'] or claim['measured']}",
            "    ",
            " " * 8,
        )
        for claim in misses
    ]
    return "\n".join([*lines, f"  {command} explains each, and shows what changed with each setup"])
