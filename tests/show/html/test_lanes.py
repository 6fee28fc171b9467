"""The lanes of a timeline: their order, and the frames of Python apart from ops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import foretrace
from foretrace.model.host import HOST_KINDS
from foretrace.model.intervals import union_length
from foretrace.read.recordings import traces
from foretrace.show.html.timeline import Timeline, depths

MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"


@pytest.fixture(scope="module")
def stacks() -> foretrace.Trace:
    return foretrace.open(MODULES, cache=False)


def test_the_gpu_and_the_thread_with_the_steps_come_first() -> None:
    trace = foretrace.open(traces()["llama_train_eager"], cache=False)
    lanes = Timeline(trace).lanes
    assert [lane.kind for lane in lanes] == ["stream", "thread", "thread"]
    assert (lanes[0].key, lanes[0].gpu_number) == ("gpu0/stream7", 0)
    assert "python3" in lanes[1].label
    assert "autograd" in lanes[2].label
    linked = int((trace.gpu.launch >= 0).sum())
    assert lanes[1].launches + lanes[2].launches == linked > 0


def test_frames_of_python_have_lanes_of_their_own(stacks: foretrace.Trace) -> None:
    timeline = Timeline(stacks)
    is_frame = stacks.host.is_kind("python_function")[timeline.event]
    for number, lane in enumerate(timeline.lanes):
        mine = timeline.lane == number
        assert (lane.kind == "python") == bool(is_frame[mine].any()) == bool(is_frame[mine].all())
        assert int(timeline.row[mine].max()) + 1 == lane.rows
        events = timeline.event[mine]
        busy = union_length(stacks.host.start[events], stacks.host.end[events])
        assert lane.busy_ns == busy
        if lane.kind == "python":  # right below its thread
            assert timeline.lanes[number - 1].key + "/python" == lane.key


def test_depths_count_callers_of_the_same_sort(stacks: foretrace.Trace) -> None:
    host = stacks.host
    shown = np.flatnonzero(host.is_kind(*HOST_KINDS) & host.lasting)[::97]
    frames = host.is_kind("python_function")
    for event, depth in zip(shown.tolist(), depths(host, shown).tolist(), strict=True):
        above, count = int(host.parent[event]), 0
        while above >= 0:
            count += bool(frames[above]) == bool(frames[event])
            above = int(host.parent[above])
        assert depth == count


def test_every_event_has_a_group(stacks: foretrace.Trace) -> None:
    timeline = Timeline(stacks)
    assert len(timeline.groups) == len(set(timeline.groups))
    names = np.array(timeline.groups)[timeline.group]
    kernels = stacks.host.is_kind("kernel")[timeline.event]
    roles = stacks.kernel_cases["role"].to_numpy()[timeline.columns["case"][kernels]]
    assert (names[kernels] == roles).all()
    copies = stacks.host.is_kind("gpu_memcpy", "gpu_memset")[timeline.event]
    assert set(names[copies]) <= {"copy"}
    assert set(names[stacks.host.is_kind("cpu_op")[timeline.event]]) == {"cpu_op"}
