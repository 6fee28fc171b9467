"""The small drawing of a call, on lanes whose cells can be counted by hand."""

from __future__ import annotations

from foretrace.schema.documents.lesson import Lanes, LaneSlice
from foretrace.show.render.lesson_page import lanes_lines, legend

WIDTH = 27  # twenty cells behind the names of the lanes


def drawing(
    *,
    ops: list[LaneSlice] | None = None,
    gpu: list[LaneSlice],
    ranges: list[LaneSlice] | None = None,
) -> Lanes:
    return Lanes("call", 2_000, ranges or [], ops or [], [], [], gpu)


def piece(label: str, start: int, end: int, number: int = 0, decides: bool = False) -> LaneSlice:
    return LaneSlice(label, start, end, number, decides)


def test_a_slice_has_its_place_its_length_and_as_much_of_its_name_as_fits() -> None:
    lanes = drawing(
        ops=[piece("aten::mm", 100, 1100), piece("aten::add", 1200, 1600)],
        gpu=[piece("a", 500, 600, 1), piece("b", 1000, 1500, 2, decides=True)],
    )
    assert lanes_lines(lanes, WIDTH) == [
        "ops    ·aten::mm──·ate…····",
        "GPU    ·····1····2████·····",
    ]
    assert legend(lanes, WIDTH) == "2.00 us, profiled: █ 2 b 500 ns ░ 1 a"


def test_slices_that_would_cover_each_other_move_to_the_right() -> None:
    gpu = [piece("a", 500, 510, 1), piece("b", 510, 520, 2), piece("c", 1990, 2000, 3)]
    assert lanes_lines(drawing(gpu=gpu), WIDTH) == ["GPU    ·····12············3"]


def test_many_slices_are_shown_by_how_much_they_cover() -> None:
    """Each of ten kernels covers 20 ns of a cell of 100 ns; the last one decides."""
    gpu = [piece("k", at * 200, at * 200 + 20, at + 1, at == 9) for at in range(10)]
    gpu += [piece("k", 100, 200, 11), piece("k", 300, 360, 12)]
    lanes = drawing(gpu=gpu, ranges=[piece("forward", 0, 2000)], ops=gpu)
    assert lanes_lines(lanes, WIDTH) == [
        "ranges forward─────────────",
        "GPU    ░▓░▒░·░·░·░·░·░·░·█·",
    ]
    assert legend(lanes, WIDTH) == "2.00 us, profiled: █ 10 k 20 ns ░ 11 others"


def test_a_name_from_a_trace_cannot_move_the_cursor() -> None:
    lanes = drawing(ops=[piece("\x1b[2J" + "x" * 30, 0, 2000)], gpu=[piece("a", 0, 10, 1)])
    assert not any("\x1b" in line for line in lanes_lines(lanes, 60))


def test_nothing_leaves_the_drawing() -> None:
    late = [piece("a", 1999, 2000, 1), piece("b", 1999, 2000, 2), piece("c", 2000, 2000, 3)]
    assert [len(line) for line in lanes_lines(drawing(gpu=late), WIDTH)] == [WIDTH]


def test_what_one_graph_launch_ran_is_counted() -> None:
    gpu = [piece("k", at * 100, at * 100 + 50, 1, decides=True) for at in range(3)]
    assert legend(drawing(gpu=gpu), WIDTH) == "2.00 us, profiled: █ 3 x k 150 ns in all"
