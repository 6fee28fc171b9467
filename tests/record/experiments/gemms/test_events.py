"""Which GPU work belongs to which call, on a made-up trace; no torch."""

from __future__ import annotations

from typing import Any

from foretrace.record.experiments.gemms.events import (
    MARK,
    mark_grid,
    marked_number,
    segments,
    summary,
)


def _event(name: str, at: float, dur: float = 2.0, grid: tuple[int, ...] = (132, 1, 1)) -> Any:
    args: dict[str, Any] = {"grid": list(grid), "block": [384, 1, 1]}
    args |= {"registers per thread": 168, "shared memory": 213_000}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": at, "dur": dur, "args": args}


def _mark(number: int, at: float) -> Any:
    return _event(MARK, at, 1.0, mark_grid(number))


def test_a_grid_carries_a_number() -> None:
    assert [marked_number(mark_grid(number)) for number in (0, 63, 64, 1234)] == [0, 63, 64, 1234]


def test_a_lost_event_shifts_no_other() -> None:
    found = segments(
        [
            _event("second", 40),
            {"ph": "M", "name": "process_name"},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 1},
            _mark(7, 10),
            _event("first", 20),
            _mark(9, 30),  # mark 8 and its work are not in the trace
            _event("before", 5),
        ]
    )
    assert {number: [event["name"] for event in work] for number, work in found.items()} == {
        0: ["before"],
        7: ["first"],
        9: ["second"],
    }


def test_several_kernels_are_summed_in_order() -> None:
    def call(at: float, first: float) -> list[Any]:
        return [_event("nvjet_splitK", at, first), _event("reduce", at + first + 1, 3)]

    found = summary([call(0, 14), call(50, 16), call(90, 15)], [call(200, 10), []])
    assert found["cold_us"] == [17, 19, 18]
    assert found["warm_us"] == [13]
    assert found["span_us"] == 14
    assert [kernel["name"] for kernel in found["kernels"]] == ["nvjet_splitK", "reduce"]
    assert found["kernels"][0] == {
        "name": "nvjet_splitK",
        "grid": [132, 1, 1],
        "block": [384, 1, 1],
        "registers": 168,
        "shared_memory": 213_000,
        "cold_us": 15,
        "warm_us": 10,
    }
    assert "differing" not in found


def test_a_repeat_with_other_kernels_is_counted_and_left_out() -> None:
    usual, other = [_event("a", 0)], [_event("b", 9, 100)]
    found = summary([usual, usual], [usual, other])
    assert found["warm_us"] == [2]
    assert found["differing"] == 1


def test_a_matmul_without_work_has_an_error() -> None:
    assert "error" in summary([[]], [[]])
