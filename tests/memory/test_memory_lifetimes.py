"""Lifetimes of allocations: live bytes as torch's own viewer and torch's counters have them."""

from __future__ import annotations

from typing import Any

import pytest

from drawn_snapshot import (
    ADAM,
    BACKWARD,
    BLOCK,
    BUILD,
    MODEL,
    DrawnSnapshot,
    path_of,
    raw,
    recorded,
    truth,
)

# programs that were recorded from their start, so that the counter and the history begin together;
# the counter of `graphed` was reset after the model was built
COUNTED = [name for name in truth() if path_of(name).exists() and name != "graphed"]


def drawn_by_torch(tree: dict[str, Any]) -> list[int]:
    """Live bytes after each event by the rule of torch's MemoryViz.

    What is freed and was never allocated, and what is held at the end without an event, was there
    at the start. An allocation adds its size, a completed release takes it away.
    """
    events = tree["device_traces"][0]
    seen: set[int] = set()
    live: dict[int, int] = {}
    for event in events:
        if event["action"] in ("alloc", "free_completed"):
            if event["action"] == "free_completed" and event["addr"] not in seen:
                live[event["addr"]] = event["size"]
            seen.add(event["addr"])
    for segment in tree["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "inactive" and block["address"] not in seen:
                live[block["address"]] = block["requested_size"]
    curve, total = [], sum(live.values())
    for event in events:
        if event["action"] == "alloc":
            total += event["size"]
        elif event["action"] == "free_completed":
            total -= event["size"]
        curve.append(total)
    return curve


@pytest.mark.parametrize("name", ["train", "inference", "oom", "outlive", "leak"])
def test_live_bytes_are_those_of_memory_viz_at_every_event(name: str) -> None:
    assert recorded(name).curve.tolist() == drawn_by_torch(raw(name))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", COUNTED)
def test_the_peak_is_that_of_torchs_counter_to_the_byte(name: str) -> None:
    assert recorded(name).peak_bytes == truth()[name]["bad"]["requested_peak"]


def test_a_release_ends_the_allocation_of_its_address() -> None:
    drawn = DrawnSnapshot()
    first = drawn.alloc(100)  # event 0
    second = drawn.alloc(10)  # 1
    drawn.free(first)  # 2 requested, 3 completed
    drawn.free(second)  # 4, 5
    lives = drawn.view.lives
    assert lives.start.tolist() == [0, 1]
    assert lives.end.tolist() == [3, 5]
    assert drawn.view.curve.tolist() == [100, 110, 110, 10, 10, 0]
    assert (drawn.view.peak, drawn.view.peak_bytes) == (1, 110)


def test_what_was_there_before_the_history_counts_from_its_start() -> None:
    drawn = DrawnSnapshot()
    drawn.before(1000)  # held throughout
    drawn.before(200, freed_by=())
    drawn.alloc(30)
    view = drawn.view
    assert view.curve.tolist() == [1200, 1000, 1030]
    assert view.lives.before.tolist() == [True, True, False]
    assert view.lives.kept.tolist() == [True, False, True]
    assert sorted(view.lives.size[view.holders].tolist()) == [200, 1000]


def test_a_second_allocation_of_an_address_ends_the_first() -> None:
    drawn = DrawnSnapshot()
    drawn.alloc(100)
    drawn.events.append({**drawn.events[0], "size": 50, "time_us": 1})  # its release is not there
    assert drawn.view.curve.tolist() == [100, 50]


def test_reserved_bytes_count_back_from_what_is_held_at_the_end() -> None:
    drawn = DrawnSnapshot()
    drawn.reserved = 500  # from before the history
    drawn.segment(300)
    drawn.alloc(10)
    view = drawn.view
    assert view.reserved.tolist() == [800, 800]
    assert view.reserved_before == 500


def test_the_line_is_the_innermost_outside_torch() -> None:
    drawn = DrawnSnapshot()
    drawn.alloc(1, BLOCK)
    drawn.alloc(2, BUILD)
    drawn.alloc(3, ADAM)
    node = "Functions.cpp:1 torch::autograd::generated::MmBackward0::apply(x)"
    drawn.alloc(4, (node, "engine.cpp:1 torch::autograd::Engine::evaluate_function"))
    drawn.alloc(5, ())
    drawn.before(6)
    view = drawn.view
    assert [view.line(row) for row in range(6)] == [
        "before the history began",
        "model.py:10 in forward",
        "train.py:1 in main",
        "train.py:8 in step",
        "MmBackward0 in the backward pass",
        "backward pass (autograd's thread has no Python stack)",
    ]


def test_what_the_backward_pass_allocates_is_named_by_what_is_released_next() -> None:
    drawn = DrawnSnapshot()
    first, second = drawn.alloc(10, MODEL), drawn.alloc(20, BLOCK)
    late = drawn.alloc(5, BACKWARD)
    drawn.free(late, second)
    early = drawn.alloc(6, BACKWARD)
    drawn.free(early, first)
    drawn.alloc(7, BACKWARD)  # nothing is released after it
    view = drawn.view
    assert [view.line(row) for row in range(5)] == [
        "model.py:20 in forward",
        "model.py:10 in forward",
        "backward pass near model.py:10 in forward",
        "backward pass near model.py:20 in forward",
        "backward pass (autograd's thread has no Python stack)",
    ]


def test_steps_end_with_those_of_the_optimizer() -> None:
    drawn = DrawnSnapshot()
    for _ in range(3):
        drawn.free(drawn.alloc(10, BLOCK))
        drawn.step()
    assert drawn.view.steps == [(0, 3), (3, 6), (6, 9)]
