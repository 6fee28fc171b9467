"""Dynamo's counters as they are in torch 2.6 and in 2.13, between two moments."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from foretrace.record.profiling.compiler_records import CompileWatch

NEW = SimpleNamespace(
    start_time_us=2_000_000_000_000_000, duration_us=1_500_000, recompile_reason="0/0: size\nmore"
)
FAILED = SimpleNamespace(
    start_time_us=2_000_000_000_000_000,
    duration_us=0,
    recompile_reason="0/7: size",
    fail_reason="Dynamo recompile limit exceeded\n  Explanation",
)
OLD = SimpleNamespace(start_time=2_000_000_001.0, entire_frame_compile_time_s=0.25)
EARLIER = SimpleNamespace(start_time_us=1, duration_us=9_000_000, recompile_reason="long ago")


@pytest.fixture
def dynamo(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    fake = SimpleNamespace(
        counters={
            "frames": {"ok": 2},
            "stats": {"unique_graphs": 2},
            "graph_break": {"print\n at 1": 1},
        },
        get_compilation_metrics=lambda: [EARLIER, NEW, FAILED, OLD],
    )
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", fake)
    return fake


def test_what_came_since_and_nothing_older(dynamo: SimpleNamespace) -> None:
    watch = CompileWatch(begun_s=1e9)
    dynamo.counters["frames"]["ok"] = 5
    dynamo.counters["graph_break"] |= {"print\n at 1": 2, "print\n at 9": 3, "never": 0}
    assert watch.report() == {
        "seconds": 1.75,
        "frames": 3,
        "graphs": 0,
        "graph_breaks": {"print": 4},
        "recompiles": ["0/0: size"],
        "gave_up": ["Dynamo recompile limit exceeded"],
    }


def test_an_eager_run_reports_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert CompileWatch().report() == {
        "seconds": 0,
        "frames": 0,
        "graphs": 0,
        "graph_breaks": {},
        "recompiles": [],
        "gave_up": [],
    }
