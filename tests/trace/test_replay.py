"""The replay of a step, with exact numbers: host, streams, waits, and what a change takes away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.look.fixes import predicted
from foretrace.read import recordings
from foretrace.trace import replay
from foretrace.trace.replay import GraphChange, Precedence, ProfilerCost, ReplayGraph
from foretrace.trace.trace import Trace
from opened_traces import open_made

Open = Callable[[TraceBuilder], Trace]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    return lambda builder: open_made(builder, tmp_path)


def test_a_node_happens_when_all_its_sources_allow() -> None:
    """As the longest way from the start does, for one change and for several at once."""
    chance = np.random.default_rng(0)
    node = np.append(np.arange(1, 40), chance.integers(1, 40, 60))
    source = (chance.random(len(node)) * node).astype(np.int64)
    costs = chance.integers(-5, 50, (len(node), 3)).astype(np.float64)
    graph = Precedence(node, source)
    for at, column in enumerate(costs.T):
        longest = [0.0]
        for number in range(1, 40):
            mine = np.flatnonzero(node == number)
            longest.append(max(longest[source[each]] + column[each] for each in mine))
        assert graph.times(column).tolist() == longest
        assert graph.times_of_each(costs)[:, at].tolist() == longest


def three_steps(host_ns: int, kernel_ns: int, *, wait: bool = False) -> TraceBuilder:
    """Steps of 100 us with one op that launches after `host_ns`; the GPU is never late."""
    builder = TraceBuilder()
    for number in range(3):
        at = number * 100_000
        builder.step(number, at, 100_000).op("aten::mm", at, host_ns + 2_000)
        builder.launch(at + host_ns, 2_000).kernel("sgemm", at + host_ns + 7_000, kernel_ns)
        if wait:
            builder.sync(at + host_ns + 2_000, 5_000 + kernel_ns)
    return builder


def graph(trace: Trace) -> ReplayGraph:
    return replay.graph_of(trace, trace.spans.steps[1], steady=True)


def test_host_time_that_goes_shortens_a_step_until_the_gpu_bounds_it(opened: Open) -> None:
    made = graph(opened(three_steps(10_000, 20_000)))
    begin, end = made.span.start_ns, made.span.end_ns
    all_of_it = GraphChange(removed=((begin, end),))
    assert replay.run(made, all_of_it) == pytest.approx(21_000, abs=1_000)  # the kernel, a pause
    half = GraphChange(removed=((begin + 50_000, end),))
    assert replay.run(made, half) == pytest.approx(50_000, abs=1_000)


def test_a_longer_kernel_bounds_the_step(opened: Open) -> None:
    made = graph(opened(three_steps(10_000, 20_000)))
    row = int(made.rows[0])
    assert replay.run(made, GraphChange(length={row: 150_000.0})) == pytest.approx(
        151_000, abs=1_000
    )


def test_a_wait_adds_the_gpu_to_the_host(opened: Open) -> None:
    made = graph(opened(three_steps(10_000, 60_000, wait=True)))
    assert replay.run(made) == 100_000
    free = GraphChange(unwaited=frozenset(made.calls[1:].tolist()))
    # 10 us before, 2 us of the launch, what the wait takes itself, 25 us after
    assert replay.run(made, free) < 62_000


@pytest.mark.parametrize(("memory", "takes"), [("Pageable", 100_000), ("Pinned", 77_000)])
def test_a_copy_to_pageable_memory_works_on_the_host_after_it(
    opened: Open, memory: str, takes: int
) -> None:
    """A call of 60 us whose copy ends after 32 us."""
    builder = TraceBuilder()
    for number in range(3):
        at = number * 100_000
        builder.step(number, at, 100_000).op("aten::copy_", at, 70_000)
        builder.launch(at + 10_000, 60_000, name="cudaMemcpyAsync")
        builder.memcpy(at + 17_000, 25_000, name=f"Memcpy DtoH (Device -> {memory})")
    assert replay.run(graph(opened(builder))) == takes


def test_the_cost_of_the_profiler_is_taken_off_the_host(opened: Open) -> None:
    trace = opened(three_steps(10_000, 20_000))
    cost = ProfilerCost(op=2_000, call=1_000)
    bare = replay.without_profiler(trace, graph(trace), cost)
    # half of the op's cost before its launch, half after, and the call's
    assert replay.run(bare) == 100_000 - 2_000 - 1_000


def test_known_times_leave_the_host_alone_where_the_gpu_is_the_bottleneck(opened: Open) -> None:
    made = graph(opened(three_steps(10_000, 95_000)))
    known = replay.fitted(made, 1.05 * replay.run(made))
    assert (known.before == made.before).all()
    assert replay.run(known) > replay.run(made)


def test_recorded_steps_are_replayed_to_their_time() -> None:
    wrong = {}
    for name, path in sorted(recordings.ladder().items())[::4]:
        found = predicted(ft.open(path))
        if found is not None:
            wrong[name] = abs(found.replayed_ns / found.recorded_ns - 1)
    assert len(wrong) > 5
    assert sorted(wrong.values())[len(wrong) // 2] < 0.03, wrong
