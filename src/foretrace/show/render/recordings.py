"""The recordings: one line each, per step."""

from __future__ import annotations

from collections.abc import Mapping

from foretrace.base.units import count_text, time_text
from foretrace.schema.documents.look import Look
from foretrace.show.overview.ranks import per_step
from foretrace.show.render.table import table

_UNCUT = 200  # a name is there to be typed


def recordings_text(documents: dict[str, Look]) -> str:
    """A table of all recordings, per step."""
    head = ["recording", "kernels", "memcpys", "memsets", "gpu busy", "host", "bound"]
    rows = [_row(name, document) for name, document in documents.items()]
    devices = sorted({str(document.trace.device) for document in documents.values()})
    title = f"{len(documents)} recordings ({', '.join(devices)}), medians per step, profiled"
    return f"{title}\n{table(head, rows, width=_UNCUT)}"


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
