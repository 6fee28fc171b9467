"""What one call of a region launches, in launch order, with medians over its calls.

The sequence shown is the one that most calls have; times are the medians of those calls, place by
place. In a long one, GPU operations of one kernel, shapes and op path are one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretrace.base.errors import UsageError
from foretrace.look.documents import EACH_STEP, WHOLE, LaunchRow, LaunchSequence
from foretrace.read.tables import NONE
from foretrace.trace.intervals import Ints
from foretrace.trace.metadata import device_of
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace
from foretrace.trace.tree import sums_above
from foretrace.work import families

# A sequence of more GPU operations than this is folded: it does not fit a page, and layers repeat.
LONGEST = 40
# Regions and rows that a page has room for; what is left out is counted.
REGIONS, ROWS = 12, 60


def sequences(trace: Trace) -> list[LaunchSequence]:
    """One per region with GPU work, then the steps, else the recording; no sequence twice."""
    describe, seen = _Describer(trace), set[bytes]()
    found: list[LaunchSequence] = []
    for name, calls in _groups(trace):
        usual = _usual(trace, calls)
        key = _key(trace, usual[0].work) if usual else b""
        if key and key not in seen and len(found) < REGIONS:
            seen.add(key)
            found.append(describe.sequence(name, len(calls), usual))
    return found


def of_region(trace: Trace, name: str) -> list[LaunchSequence]:
    """The sequence that most calls of one region have; none where they launch nothing."""
    groups = trace.spans.region_groups()
    if name not in groups:
        known = ", ".join(list(groups)[:REGIONS]) or "none"
        raise UsageError(f"no region {name!r} in this trace; regions: {known}")
    calls = groups[name]
    usual = _usual(trace, calls)
    return [_Describer(trace).sequence(name, len(calls), usual)] if usual else []


def _groups(trace: Trace) -> Iterator[tuple[str, list[Span]]]:
    yield from trace.spans.region_groups().items()
    if trace.spans.steps:
        yield EACH_STEP, trace.spans.steps
        return
    yield WHOLE, [Span("", 0, 0, 0, 0, trace.gpu.launch_order)]


def _key(trace: Trace, rows: Ints) -> bytes:
    return trace.host.name[trace.gpu.id[rows]].tobytes()


def _usual(trace: Trace, calls: list[Span]) -> list[Span]:
    """The calls with the commonest sequence, of those that launched anything."""
    keys = [_key(trace, span.work) for span in calls]
    counted = Counter(key for key in keys if key)
    best = max(counted, key=lambda key: (counted[key], key), default=b"")
    return [span for span, key in zip(calls, keys, strict=True) if key == best and key]


class _Describer:
    """Describes the GPU operations of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.case = trace, trace.order.case_of_work
        self.chain = np.full(len(trace.gpu), -1, np.int64)
        self.chain[trace.order.row] = trace.order.chain
        host, below = trace.host, trace.work_below
        share = host.self_length / np.maximum(below, 1)
        self.shares = sums_above(host.parent, np.where(host.is_op | host.is_call, share, 0))
        device = device_of(trace.about)
        self.most = device.bytes_per_s / 1e9 if device else None

    def sequence(self, name: str, calls: int, usual: list[Span]) -> LaunchSequence:
        """The sequence that `usual` calls share."""
        places = np.stack([span.work for span in usual])  # one row per call, one column per place
        first, count = places[0], places.shape[1]
        groups = self._folded(first) if count > LONGEST else [[place] for place in range(count)]
        return LaunchSequence(
            *(name, calls, len(usual), count),
            folded=count > LONGEST,
            rows=[self._row(places[:, group]) for group in groups[:ROWS]],
            left_out=max(len(groups) - ROWS, 0),
        )

    def _folded(self, rows: Ints) -> list[list[int]]:
        groups: dict[tuple[int, ...], list[int]] = {}
        name = self.trace.host.name[self.trace.gpu.id[rows]]
        keys = zip(name.tolist(), self.case[rows].tolist(), self.chain[rows].tolist(), strict=True)
        for place, key in enumerate(keys):
            groups.setdefault(key, []).append(place)
        return list(groups.values())

    def _row(self, rows: Ints) -> LaunchRow:
        trace, gpu, every, first = self.trace, self.trace.gpu, rows.reshape(-1), int(rows[0, 0])
        name = trace.host.names[trace.host.name[gpu.id[first]]]
        case = trace.kernel_rows[int(self.case[first])] if gpu.is_kernel[first] else None
        ns = _median(gpu.length[every][gpu.usable[every]])
        flops, moved = (case.flops, case.bytes) if case else (None, self._copied(first))
        if bool((self.case[every] != self.case[first]).any()):
            flops = moved = None  # no one size: the shapes differ between calls
        launch = int(gpu.launch[first])
        launched = [trace.host.names[trace.host.name[launch]]] if launch >= 0 else []
        launches = gpu.launch[every]
        return LaunchRow(
            kernel=case.id.short if case else families.decode(name).short,
            name=name,
            role=str(trace.work_roles[first]),
            bound=str(trace.work_bounds[first]),
            chain=[*trace.origins.host.op_chain(int(trace.origins.op[first])), *launched],
            times=rows.shape[1],
            ns=ns,
            host_ns=_median(self.shares[launches[launches >= 0]]),
            delay_ns=_median(gpu.delay[every][gpu.delay[every] >= 0]),
            tflops=flops / ns / 1e3 if flops and ns else None,
            gbps=case.gbps if moved and case and case.bound == "l2" else self._rate(moved, ns),
            certainty=case.cost_certainty if case else "",
        )

    def _rate(self, moved: int | None, ns: float | None) -> float | None:
        """None beyond the bandwidth of the memory: a cache gave part of it."""
        rate = moved / ns if moved and ns else None
        return None if rate is None or (self.most and rate > self.most) else rate

    def _copied(self, row: int) -> int | None:
        """Bytes that a memcpy or memset moves: a copy within the device reads and writes."""
        size, name = int(self.trace.gpu.bytes[row]), self.trace.host.name[self.trace.gpu.id[row]]
        within = self.trace.host.names[name].startswith(("Memcpy DtoD", "Memcpy PtoP"))
        return None if size == NONE else size * (2 if within else 1)


def _median(values: NDArray[Any]) -> float | None:
    return float(np.median(values)) if len(values) else None
