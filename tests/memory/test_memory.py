"""Memory over time: totals, the peak, and who holds it, against the events one by one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from corpus.build import instant
from corpus.builder import TraceBuilder
from foretrace.pages.view_data import memory, thinned
from foretrace.trace.trace import Trace
from foretrace.trace.traced_memory import over_time
from opened_traces import open_made
from pages.test_pieces import unpack


class Allocator:
    """Writes memory events with the totals that the profiler would write."""

    def __init__(self, built: TraceBuilder, *, before: int = 0, totals: bool = True) -> None:
        self.built, self.held, self.totals = built, before, totals

    def event(self, ts: int, address: int, size: int, device: int = 0) -> Allocator:
        self.held += size
        args = {"Device Type": 1, "Device Id": device, "Addr": address, "Bytes": size}
        if self.totals:
            args |= {"Total Allocated": self.held, "Total Reserved": 4_096}
        at = self.built.origin_ns + ts
        event = instant("[memory]", self.built.pid, self.built.tid, at)
        self.built.events.append(event | {"cat": "cpu_instant_event", "args": args})
        return self


def step(tmp_path: Path, *, totals: bool = True) -> Trace:
    """1,000 bytes from before; `mm` and `relu` hold the peak, `add` is released before it."""
    built = TraceBuilder().host("python_function", "nn.Module: Net_0", 0, 5_000)
    built.op("aten::linear", 100, 900).op("aten::mm", 200, 500)
    built.op("aten::add", 1_500, 400).op("aten::relu", 2_000, 400)
    Allocator(built, before=1_000, totals=totals).event(300, 1, 512).event(350, 2, 256).event(
        1_600, 3, 64
    ).event(1_700, 3, -64).event(2_100, 3, 2_048).event(2_500, 1, -512).event(6_000, 9, -300)
    return open_made(built, tmp_path)


def test_the_peak_and_who_holds_it(tmp_path: Path) -> None:
    (found,) = over_time(step(tmp_path))
    assert (found.name, found.relative, found.before) == ("GPU 0", False, 1_000)
    assert found.allocated.tolist() == [1_512, 1_768, 1_832, 1_768, 3_816, 3_304, 3_004]
    assert found.reserved is not None
    assert set(found.reserved.tolist()) == {4_096}
    assert found.allocated[found.peak] == 3_816
    held = [(each.ops, each.modules, each.bytes, each.count) for each in found.holders]
    assert held == [
        (("aten::relu",), ("Net_0",), 2_048, 1),
        (("aten::linear", "aten::mm"), ("Net_0",), 768, 2),
    ]
    assert found.before + sum(each.bytes for each in found.holders) == 3_816


def test_without_totals_it_counts_from_the_first_event(tmp_path: Path) -> None:
    (found,) = over_time(step(tmp_path, totals=False))
    assert (found.relative, found.before, found.reserved) == (True, None, None)
    assert found.allocated.tolist() == [512, 768, 832, 768, 2_816, 2_304, 2_004]


def test_devices_are_apart_and_a_trace_without_memory_has_none(tmp_path: Path) -> None:
    built = TraceBuilder().op("aten::mm", 0, 5_000)
    Allocator(built).event(100, 1, 512).event(200, 1, 64, device=1)
    assert [each.name for each in over_time(open_made(built, tmp_path))] == ["GPU 0", "GPU 1"]
    none = TraceBuilder().op("aten::mm", 0, 5_000)
    assert over_time(open_made(none, tmp_path)) == []


def test_the_page_counts_from_the_first_event(tmp_path: Path) -> None:
    trace = step(tmp_path)
    (page,) = memory(trace, trace.host.start[trace.host.lasting].min())
    points = unpack(page.points)
    assert points["time"] == [300, 350, 1_600, 1_700, 2_100, 2_500, 6_000]
    assert (page.peak_bytes, page.peak_ns) == (3_816, 2_100)
    assert trace.host.names[trace.host.name[int(page.holders.to[0].split()[1])]] == "aten::relu"


def test_thinning_keeps_every_peak() -> None:
    values = np.random.default_rng(0).integers(0, 1_000_000, 50_000)
    kept = thinned(values, 6_000, -values)
    assert len(kept) <= 6_000
    assert (np.diff(kept) > 0).all()
    edges = np.linspace(0, len(values), 1_001).astype(int)
    for start, end in pairwise(edges.tolist()):
        inside = kept[(kept >= start) & (kept < end)]
        assert values[inside].max() == values[start:end].max()
        assert values[inside].min() == values[start:end].min()
    assert thinned(values, 50_000).tolist() == list(range(50_000))
