"""The tour: one line per recorded trace and per climb, and what to try next."""

from __future__ import annotations

from collections.abc import Mapping

from foretrace.overview.ranks import per_step
from foretrace.render.climb import score
from foretrace.render.table import table
from foretrace.schema.documents.ladder import LadderDocument
from foretrace.schema.documents.look import Look
from foretrace.units import count_text, time_text

_NEXT = """Next, on a trace of your own or on one of {folder}:
  foretrace lesson 1                predict what a program does, and see at once why
  foretrace look TRACE              what bounds it, what to do first, where the time goes
  foretrace name KERNEL             what a kernel's name means, part by part
  foretrace compare A B             what changed between two runs, and whether it is worth it
  foretrace check TRACE -g GUESS    mark a prediction, such as "in mlp_fwd: kernels == 5\""""


def next_text(folder: str) -> str:
    """What to try next, and on what."""
    return _NEXT.format(folder=folder)


def tour_text(documents: dict[str, Look]) -> str:
    """A table of all recordings, per step."""
    head = ["recording", "kernels", "memcpys", "memsets", "gpu busy", "host", "bound"]
    rows = [_row(name, document) for name, document in documents.items()]
    devices = sorted({str(document.trace.device) for document in documents.values()})
    title = f"{len(documents)} recordings ({', '.join(devices)}), medians per step, profiled"
    return f"{title}\n{table(head, rows)}"


def _row(name: str, document: Look) -> list[str]:
    return [
        name,
        count_text(per_step(document, lambda step: step.kernels)),
        count_text(per_step(document, lambda step: step.memcpys)),
        count_text(per_step(document, lambda step: step.memsets)),
        time_text(per_step(document, lambda step: step.gpu_busy_ns)),
        time_text(per_step(document, lambda step: step.cpu_ns)),
        document.verdict.bound,
    ]


def more_text(counts: Mapping[str, int]) -> str:
    """The recordings that are not in the table: how many of each rung."""
    rungs = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    return (
        f"  and {sum(counts.values())} of the ladder: {rungs}\n"
        "  foretrace recordings RUNG lists those of one rung"
    )


def climb_line(document: LadderDocument, command: str) -> str:
    """A climb in one line; `command` shows more."""
    return f"The ladder ({document.source}): {score(document)}: {command}"
