"""Every lesson is played on its recordings: right, and wrong in every way that it foresees."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

import foretrace as ft
from foretrace.base.errors import UsageError
from foretrace.learn.lessons import lesson, lessons, read_lesson
from foretrace.learn.lessons.documents import HowMany, Lesson, LessonStep, PickOne, Predict
from foretrace.learn.lessons.lines import marked_text
from foretrace.learn.lessons.scene import Scene, filled
from foretrace.learn.lessons.sitting import DIGITS, Sitting, right_answer
from sweep import looped

LESSONS = lessons()
STEPS = [
    pytest.param(each, at, id=f"{each.name}-{at + 1}")
    for each in LESSONS
    for at in range(len(each.steps))
]


@cache
def opened(path: str) -> ft.Trace:
    return ft.open(path, cache=False)


SCENES: dict[tuple[str, str], Scene] = {}  # a sitting opens each recording once; these tests too


def sitting(each: Lesson) -> Sitting:
    found = Sitting(each, opened)
    found._scenes = SCENES
    return found


def wrong_answers(step: LessonStep, right: str) -> list[str]:
    """Every wrong choice; wrong numbers that have an explanation, and one that has none."""
    if isinstance(step.ask, PickOne):
        return [digit for digit in DIGITS[: len(step.ask.choices)] if digit != right]
    if isinstance(step.ask, HowMany):
        return [*step.ask.misread, str(float(right) * 3 + 1).removesuffix(".0")]
    return ["total.kernels == 99"]


def right_answers(each: Lesson) -> list[str]:
    played = sitting(each)
    return [right_answer(step, played.scene(step)) for step in each.steps]


# Each was counted a second time, by plain arithmetic on the raw events of the recordings.
ANSWERS = {
    "matmul_add": ["2", "1", "3", "2"],
    "linear": ["1", "3", "5", "2"],
    "kernel_names": ["2", "2", "8", "in mlp_fwd: kernels == 5"],
    "bounds": ["2", "2", "3.25", "3"],
    "mlp": ["5", "2", "8192", "28.2"],
    "compile_it": ["4", "1", "2", "2"],
    "by_hand": ["4", "1", "2", "3"],
    "attention": ["1", "3", "1", "3"],
    "training": ["42", "3", "3", "6"],
    "decoding": ["3", "2", "2", "2"],
    "compiler_log": ["1", "2", "2", "1"],
    "copies": ["5", "3", "2", "2"],
    "memory": ["3", "2", "2"],
}


@pytest.mark.parametrize("each", LESSONS, ids=lambda each: each.name)
def test_the_right_answers_are_found_and_all_hit(each: Lesson) -> None:
    played = sitting(each)
    assert right_answers(each) == ANSWERS[each.name]
    for answer in right_answers(each):
        assert played.answer(answer).verdict == "hit"
    document = played.document()
    assert (document.hits, document.misses, document.skipped) == (len(each.steps), 0, 0)
    assert played.step is None


@looped(("each", "at"), STEPS)
def test_every_wrong_answer_misses_and_says_what_it_overlooked(each: Lesson, at: int) -> None:
    step, played = each.steps[at], sitting(each)
    right = right_answer(step, played.scene(step))
    for wrong in wrong_answers(step, right):
        played.at = at
        found = played.answer(wrong)
        assert found.verdict == "miss", wrong
        assert found.right == ("" if isinstance(step.ask, Predict) else right)
        assert bool(found.misread) is not isinstance(step.ask, Predict), wrong


@looped(("each", "at"), STEPS)
def test_what_decides_is_drawn_and_the_row_is_in_the_trace(each: Lesson, at: int) -> None:
    played = sitting(each)
    played.at, step = at, each.steps[at]
    found = played.answer(right_answer(step, played.scene(step)))
    lanes = found.lanes
    assert any(
        one.decides for one in (*lanes.ranges, *lanes.ops, *lanes.inside, *lanes.calls, *lanes.gpu)
    )
    assert found.row.calls > 0
    assert found.row.self_cpu_ns <= found.row.cpu_ns
    assert found.row.self_gpu_ns <= found.row.gpu_ns
    assert all(0 <= one.start_ns <= one.end_ns <= lanes.length_ns for one in lanes.gpu)


def test_a_right_answer_shows_what_the_articles_print() -> None:
    """A reader who has the articles open finds their numbers, of an A100, beside ours."""
    played = sitting(lesson("compile_it"))
    texts = [marked_text(played.answer(answer)) for answer in ("4", "1", "2", "2")]
    assert [text.splitlines()[0].startswith("hit") for text in texts] == [True] * 4
    said = " ".join(texts[3].split())
    assert (
        "The articles' A100: 89.4 us for triton_poi_fused__unsafe_view_gelu_mul_0 (Part 2)." in said
    )
    named = {each.name for each in LESSONS if any(step.a100 for step in each.steps)}
    beyond = {"training", "decoding", "copies", "compiler_log", "memory"}
    assert {each.name for each in LESSONS} - named == beyond


def test_numbers_and_choices_may_be_words() -> None:
    played = sitting(lesson("matmul_add"))
    assert played.answer("Two").answer == "2"
    assert played.answer("one").text == "less than 10%"  # the first choice
    for words in ("the tensor cores", "tensor cores", "Host"):
        found = played.answer(words)
        assert found.answer == ("1" if words == "Host" else "3")
        played.back()
    with pytest.raises(UsageError, match="enter 1, 2, 3"):
        played.answer("the")  # two choices have it


def test_answers_that_are_not_valid_are_refused_and_change_nothing() -> None:
    played = sitting(LESSONS[0])
    for wrong in ("", "many", "-1", "1e3"):
        with pytest.raises(UsageError, match="enter a number"):
            played.answer(wrong)
    played.skip()
    with pytest.raises(UsageError, match="enter 1, 2, 3"):
        played.answer("4")
    assert played.at == 1
    assert not any(isinstance(step.ask, Predict) for step in LESSONS[0].steps)


def test_the_worked_example_of_the_page_can_be_played() -> None:
    page = Path(__file__).parents[3] / "docs" / "lessons.md"
    (text,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.M | re.S)
    played = sitting(read_lesson(text))
    found = played.answer("2")
    assert (found.verdict, found.right, found.misread) == (
        "miss",
        "1",
        "The matmul adds the bias.",
    )
    assert "{" not in found.why


def test_a_trace_without_a_gpu_decides_nothing_and_nothing_is_claimed(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "matmul_add", "ts": 0, "dur": 90},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 10, "dur": 30},
    ]
    path.write_text(
        json.dumps({"traceEvents": [{**event, "pid": 1, "tid": 1} for event in events]})
    )
    played = Sitting(LESSONS[0], lambda _: opened(str(path)))
    played.at = 1  # of a CPU `kernels` are the ops that compute, and how busy a GPU is is unknown
    found = played.answer("2")
    assert (found.verdict, found.right) == ("unknown", "")
    assert found.why.startswith("no GPU events in this trace")
    assert found.lanes.gpu == []
    assert marked_text(found).startswith("unknown  The trace does not decide this: no GPU events")
    assert "(not in the trace: gpu.busy)" in filled("{gpu.busy}", played.scene(LESSONS[0].steps[0]))
