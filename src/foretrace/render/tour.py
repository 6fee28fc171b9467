"""The tour: one line per recorded trace, a climb in a few lines, and what to try next."""

from __future__ import annotations

from collections import Counter

from foretrace.overview.ranks import per_step
from foretrace.render.climb import MARKS, heading, score, skipped_lines, wrapped
from foretrace.render.table import table
from foretrace.schema.documents.ladder import LadderDocument
from foretrace.schema.documents.look import Look
from foretrace.schema.verdict import VERDICTS
from foretrace.units import count_text, percent_text, time_text

_NEXT = """What to try next
  foretrace look TRACE              the op that launched each kernel, its cost and its bound
  foretrace name KERNEL             what a kernel's name means, part by part
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
    devices = sorted({str(document.trace.device) for document in documents.values()})
    title = f"{len(documents)} recordings ({', '.join(devices)}), medians per step"
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


def climb_summary(document: LadderDocument, command: str) -> str:
    """A climb in a few lines; `command` shows all of it."""
    counts = Counter((claim.rung, claim.verdict) for claim in document.claims)
    names = dict.fromkeys(claim.rung for claim in document.claims)
    rows = [[name, *(count_text(counts[name, verdict]) for verdict in VERDICTS)] for name in names]
    marks = table(["rung", *(MARKS[verdict] for verdict in VERDICTS)], rows)
    lines = [heading(document), f"  {score(document)}", marks]
    lines += ["  skipped:", *skipped_lines(document)] if document.skipped else []
    misses = [claim for claim in document.claims if claim.verdict == "miss"]
    lines += ["  claims that do not hold, and the correction:"] if misses else []
    for claim in misses:
        text = f"{claim.number:<3} {claim.guess}: {claim.correction or claim.measured}"
        lines.append(wrapped(text, "    ", " " * 8))
    return "\n".join([*lines, f"  {command} explains each, and shows what changed with each setup"])
