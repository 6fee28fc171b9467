"""Batch sizes of graphs, as engines and users name them.

vLLM: `capture_32_FULL`, `execute_32_context_0(…)_generation_32(…)`,
`execute_context_0(0)_generation_32(32)`. SGLang: `capture_32_DECODE`, `step[DECODE bs=32]`. One's
own: `capture bs=8`, `decode bs=8`. The innermost range around a call that states a size counts.
"""

from __future__ import annotations

import re

import numpy as np

from foretrace.model.intervals import Ints
from foretrace.model.recording import Recording
from foretrace.model.serving import served_batch

_SIZE = re.compile(
    r"\b(?:bs|batch|batch[ _]size)\s?[=:_ ]\s?(\d{1,7})\b|\b(?:capture|execute)_(\d{1,7})_", re.I
)


def size_in(name: str) -> int | None:
    """`step[DECODE bs=32]` -> 32; None where a name states no size."""
    if match := _SIZE.search(name):
        return int(match[1] or match[2])
    stated = served_batch(name)  # vLLM's graphs are as large as the tokens of a batch
    return stated.tokens if stated else None


def around(trace: Recording, events: Ints) -> list[int | None]:
    """The batch size that the innermost range around each event states, where one does."""
    host = trace.host
    stating = host.is_region & host.named(size_in)
    if not stating.any():
        return [None] * len(events)
    found = host.nearest(np.asarray(events, np.int64), stating).tolist()
    return [size_in(host.names[host.name[event]]) if event >= 0 else None for event in found]
