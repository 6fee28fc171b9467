"""What a recording repeats: its steps, the batches of a server, or the calls of its main region."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretrace.base.arrays import distinct
from foretrace.model.analysis import Analysis
from foretrace.model.spans import Span

# A region stands for the recording when it holds this share of all GPU time.
MAIN = 0.5
NAME = 32


def measured_spans(trace: Analysis, region: str = "") -> tuple[str, list[Span]]:
    """The word for it, and the steps or calls that are measured; none for the whole recording."""
    groups = trace.spans.region_groups()
    if region:
        return "per call", _working(trace, groups[region])
    steps, busy = _working(trace, trace.spans.steps), trace.gpu.busy(trace.gpu.usable)
    if steps and _busy(trace, steps) >= MAIN * busy:
        return "per step", steps
    served = _served(trace)
    if served[1] and _busy(trace, served[1]) >= MAIN * busy:
        return f"per {served[0]} batch", served[1]
    calls = [(name, _working(trace, spans)) for name, spans in groups.items()]
    main = max(calls, key=lambda each: _busy(trace, each[1]), default=("", []))
    if main[1] and _busy(trace, main[1]) >= MAIN * busy:
        return f"per call of {shortened(main[0])}", main[1]
    return "in the recording", []


def _served(trace: Analysis) -> tuple[str, list[Span]]:
    """The kind of batch that keeps the GPU busiest, where a serving engine annotated them."""
    kinds: dict[str, list[Span]] = {}
    for span, batch in zip(trace.served.spans, trace.served.batches, strict=True):
        kinds.setdefault(batch.kind, []).append(span)
    calls = [(kind, _working(trace, spans)) for kind, spans in kinds.items()]
    return max(calls, key=lambda each: _busy(trace, each[1]), default=("", []))


def shortened(name: str) -> str:
    """A name that leaves room for the rest of the line; serving engines write long ones."""
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _working(trace: Analysis, spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if bool(trace.gpu.usable[span.work].any())]


def _busy(trace: Analysis, spans: Sequence[Span]) -> int:
    work = [span.work for span in spans]
    return trace.gpu.busy(distinct(np.concatenate(work))) if work else 0
