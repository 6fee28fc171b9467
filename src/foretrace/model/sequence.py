"""What one call of a region puts on the GPU, in the order of the launches, with medians over its
calls.

Calls of one region usually do the same thing. The sequence shown is the one that most calls have;
times are the medians of those calls, place by place. A long sequence is folded: equal pieces
(kernel, shapes and op path) become one row, at the place of the first, with the number of times it
occurs in a call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from foretrace import families
from foretrace.model.intervals import Ints
from foretrace.model.spans import Span
from foretrace.schema.tables import NONE

if TYPE_CHECKING:
    from foretrace.model.order import Case
    from foretrace.model.trace import Trace

# A sequence of more pieces than this is folded: it no longer fits a page, and layers repeat.
LONGEST = 40
# Regions and rows that a page has room for; what is left out is counted.
REGIONS, ROWS = 12, 60


def sequences(trace: Trace) -> list[dict[str, Any]]:
    """One entry per region with GPU work, then the steps (without steps, the recording); equal
    sequences are shown once.
    """
    pieces, seen = _Pieces(trace), set[bytes]()
    found: list[dict[str, Any]] = []
    for name, calls in _groups(trace):
        usual = _usual(trace, calls)
        key = _key(trace, usual[0].work) if usual else b""
        if key and key not in seen and len(found) < REGIONS:
            seen.add(key)
            found.append(pieces.sequence(name, len(calls), usual))
    return found


def _groups(trace: Trace) -> Iterator[tuple[str, list[Span]]]:
    yield from trace.spans.region_groups().items()
    if trace.spans.steps:
        yield "each step", trace.spans.steps
        return
    yield "the whole recording", [Span("", 0, 0, 0, 0, trace.gpu.launch_order)]


def _key(trace: Trace, rows: Ints) -> bytes:
    return trace.host.name[trace.gpu.id[rows]].tobytes()


def _usual(trace: Trace, calls: list[Span]) -> list[Span]:
    """The calls with the commonest sequence, of those that launched anything."""
    keys = [_key(trace, span.work) for span in calls]
    counted = Counter(key for key in keys if key)
    best = max(counted, key=lambda key: (counted[key], key), default=b"")
    return [span for span, key in zip(calls, keys, strict=True) if key == best and key]


class _Pieces:
    """GPU work of one trace, described row by row."""

    def __init__(self, trace: Trace) -> None:
        self.trace, order = trace, trace.order
        self.case, self.chain = (
            np.full(len(trace.gpu), -1, np.int64),
            np.full(len(trace.gpu), -1, np.int64),
        )
        self.case[order.row], self.chain[order.row] = order.case, order.chain
        self.timed = trace.host.is_op | trace.host.is_call

    def sequence(self, name: str, calls: int, usual: list[Span]) -> dict[str, Any]:
        gpu = self.trace.gpu
        places = np.stack([span.work for span in usual])  # one row per call, one column per place
        pieces = places.shape[1]
        groups = (
            self._folded(places[0]) if pieces > LONGEST else [[place] for place in range(pieces)]
        )
        return {
            "region": name,
            "calls": calls,
            "alike": len(usual),
            "pieces": pieces,
            "folded": pieces > LONGEST,
            "memcpys": int(gpu.is_memcpy[places[0]].sum()),
            "memsets": int(gpu.is_memset[places[0]].sum()),
            "rows": [self._piece(places[:, group]) for group in groups[:ROWS]],
            "left_out": max(len(groups) - ROWS, 0),
        }

    def _folded(self, rows: Ints) -> list[list[int]]:
        """Places by what runs there and who asked for it, in order of first launch."""
        groups: dict[tuple[int, ...], list[int]] = {}
        name = self.trace.host.name[self.trace.gpu.id[rows]]
        keys = zip(name.tolist(), self.case[rows].tolist(), self.chain[rows].tolist(), strict=True)
        for place, key in enumerate(keys):
            groups.setdefault(key, []).append(place)
        return list(groups.values())

    def _piece(self, rows: Ints) -> dict[str, Any]:
        """One row of the sequence: the pieces of one place, or of several alike, over all calls."""
        trace, gpu, every, first = self.trace, self.trace.gpu, rows.reshape(-1), int(rows[0, 0])
        name = trace.host.names[trace.host.name[gpu.id[first]]]
        case = trace.order.cases[int(self.case[first])] if gpu.is_kernel[first] else None
        ns = _median(gpu.length[every][gpu.usable[every]])
        return {
            "kernel": case.id.short if case else families.decode(name).short,
            "name": name,
            "role": str(trace.work_roles[first]),
            "bound": str(trace.work_bounds[first]),
            "chain": self._chain(first),
            "times": rows.shape[1],
            "ns": ns,
            "host_ns": self._host_ns(gpu.launch[every]),
            "delay_ns": _median(gpu.delay[every][gpu.delay[every] >= 0]),
            "event": int(gpu.id[first]),
        } | self._rates(case, first, ns)

    def _chain(self, row: int) -> list[str]:
        """The ops above, outermost first, and the call that launched it."""
        host, launch = self.trace.host, int(self.trace.gpu.launch[row])
        ops = host.op_chain(int(self.trace.gpu.op[row]))
        return [*ops, host.names[host.name[launch]]] if launch >= 0 else [*ops]

    def _rates(self, case: Case | None, row: int, ns: float | None) -> dict[str, Any]:
        flops, moved = (case.flops, case.bytes) if case else (None, self._copied(row))
        return {
            "flops": flops,
            "bytes": moved,
            "tflops": flops / ns / 1e3 if flops and ns else None,
            "gbps": moved / ns if moved and ns else None,
        }

    def _copied(self, row: int) -> int | None:
        """Bytes that a copy or a fill moves: a copy within the device reads and writes."""
        size, name = int(self.trace.gpu.bytes[row]), self.trace.host.name[self.trace.gpu.id[row]]
        within = self.trace.host.names[name].startswith(("Memcpy DtoD", "Memcpy PtoP"))
        return None if size == NONE else size * (2 if within else 1)

    def _host_ns(self, launches: Ints) -> float | None:
        """The host's own time in the launch and the ops above it, without what else they called;
        median.

        An op that launches several things counts whole for each of them.
        """
        host, place = self.trace.host, launches[launches >= 0]
        total = np.zeros(len(place), np.int64)
        while (going := place >= 0).any():
            here = place[going]
            total[going] += np.where(self.timed[here], host.self_length[here], 0)
            place = np.where(going, host.parent[place], -1)
        return _median(total)


def _median(values: Ints) -> float | None:
    return float(np.median(values)) if len(values) else None
