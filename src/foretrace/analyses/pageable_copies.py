"""Copies between host and device from memory that is not pinned.

What it shows: memcpys whose host side is pageable memory: how many, how many bytes, how fast.

Why it matters: the driver copies pageable memory through a pinned buffer of its own and holds the
calling thread until it has read the source, even where the call says asynchronous.
`pin_memory=True` in the data loader with `non_blocking=True` makes it overlap with GPU work.

How it is computed: from the names of the memcpys (`Memcpy HtoD (Pageable -> Device)`). The saving
is at most the larger of their time on the GPU and the time the host spent in the calls.

When it is wrong: traces of AMD cards do not tell pageable from pinned memory, and nothing is said
about them. Small scalars cost less to copy than to pin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from foretrace.analyses._common import each, ids, per
from foretrace.analyses._copies import counted
from foretrace.analyses._sketch import Sketch, memcpy
from foretrace.schema.finding import Example, Finding, Rule
from foretrace.schema.tables import NONE
from foretrace.units import bytes_text, plural, time_text

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def check(trace: Trace) -> Iterator[Finding]:
    gpu, host, step = trace.gpu, trace.host, trace.order.per_step
    pageable = host.named(lambda name: name.startswith("Memcpy") and "Pageable" in name)[gpu.id]
    rows = np.flatnonzero(gpu.is_memcpy & pageable & counted(trace))
    if not len(rows):
        return
    moved, ns = int(gpu.bytes[rows][gpu.bytes[rows] != NONE].sum()), int(gpu.length[rows].sum())
    calls = np.unique(gpu.launch[rows][gpu.launch[rows] >= 0])
    held, count = int(host.length[calls].sum()), each(trace, len(rows))
    rate = round(moved / ns, 2) if ns else None
    speed = f" at {rate:.1f} GB/s" if rate is not None else ""
    title = f"{plural(count, 'copy', 'copies')} {per(trace)} through pageable host memory"
    detail = (
        f"{bytes_text(step(moved))}{speed}: {time_text(step(ns))} on the GPU, "
        f"{time_text(step(held))} in the host calls "
        f"{per(trace)}. Pinned memory copies faster and does not hold the host."
    )
    evidence = {
        "count": count,
        "bytes": step(moved),
        "ns": step(ns),
        "host_ns": step(held),
        "gb_per_s": rate,
    }
    yield Finding(
        RULE.name, "found", title, detail, evidence, ids(gpu.id[rows]), step(max(ns, held))
    )


def _sketch(kind: str) -> dict[str, object]:
    return (
        Sketch()
        .step()
        .op("aten::copy_", memcpy(f"Memcpy HtoD ({kind} -> Device)", 100, 1_000_000), us=20)
        .document()
    )


RULE = Rule(
    name="pageable_copies",
    title="Copies from memory that is not pinned",
    check=check,
    needs=frozenset({"gpu"}),
    examples=(
        Example(
            "a pageable batch",
            lambda: _sketch("Pageable"),
            {"count": 1, "bytes": 1_000_000, "ns": 100000, "gb_per_s": 10.0},
        ),
        Example("a pinned batch", lambda: _sketch("Pinned"), None),
    ),
)
