"""The tour: one line per recorded trace, what a climb found in a few lines, and what to try next."""

from __future__ import annotations

from collections import Counter
from typing import Any

from foretrace.overview.ranks import per_step
from foretrace.render.climb import MARKS, heading, score, skipped_lines, wrapped
from foretrace.render.table import table
from foretrace.schema.documents.look import Look
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


def tour_text(documents: dict[str, Look]) -> str:
    """A table of all recordings, per step."""
    head = ["recording", "kernels", "memcpys", "memsets", "gpu busy", "host", "idle", "bound"]
    rows = [_row(name, document) for name, document in documents.items()]
    devices = {document.trace.device for document in documents.values()}
    title = (
        f"{len(documents)} recordings ({', '.join(sorted(map(str, devices)))}), medians per step"
    )
    return f"{title}\n{table(head, rows)}"


def _row(name: str, document: Look) -> list[str]:
    busy, span = document.totals.gpu_busy_ns, document.totals.gpu_span_ns
    bounds = [step.bound for step in document.steps] or ["unknown"]
    return [
        name,
        count_text(per_step(document, lambda step: step.kernels)),
        count_text(per_step(document, lambda step: step.memcpys)),
        count_text(per_step(document, lambda step: step.memsets)),
        time_text(per_step(document, lambda step: step.gpu_busy_ns)),
        time_text(per_step(document, lambda step: step.cpu_ns)),
        percent_text(1 - busy / span if busy is not None and span else None),
        max(bounds, key=bounds.count),
    ]


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
