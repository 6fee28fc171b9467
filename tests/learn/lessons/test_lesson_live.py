"""Every lesson is played live on a CPU: right, and wrong in every way that it foresees."""

from __future__ import annotations

import pytest

import foretrace as ft
from foretrace.base.errors import MissingError
from foretrace.learn.lessons import lessons
from foretrace.learn.lessons.documents import HowMany, Lesson, LessonStep, PickOne, Predict
from foretrace.learn.lessons.lines import WIDTH, asked_text, end_text, marked_text, title_text
from foretrace.learn.lessons.live import LiveRecordings, fitted
from foretrace.learn.lessons.sitting import Sitting, right_answer
from learn.lessons.test_lesson_playing import wrong_answers
from sweep import looped

torch = pytest.importorskip("torch")
LESSONS = [fitted(each, "cpu") for each in lessons()]
SAID: list[str] = []

LONGEST = 88  # lines of a transcript, with the terms that it explains


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> LiveRecordings:
    """Each program is recorded once for all tests."""
    SAID.clear()
    folder = tmp_path_factory.mktemp("live")
    return LiveRecordings(
        "cpu", "a CPU", folder, lambda path: ft.open(path, cache=False), SAID.append
    )


def foreseen(step: LessonStep, answer: str) -> bool:
    """Whether the lesson explains a wrong answer: not the choice that is right wherever no other program runs."""
    if isinstance(step.ask, PickOne):
        return bool(step.ask.choices[int(answer) - 1].misread)
    return not isinstance(step.ask, Predict)


def transcript(each: Lesson, here: LiveRecordings, *, right: bool) -> list[str]:
    played, lines = Sitting(each, here), [title_text(each)]
    while step := played.step:
        asked = played.asked(played.at)
        lines += ["", asked_text(asked)]
        if asked.skipped:
            assert asked.skipped == step.skipped  # the others run here
            played.skip()
            continue
        held = right_answer(step, played.scene(step))
        free = isinstance(step.ask, Predict)
        wrong = [] if right else ["calls(aten::mm) == 99"] if free else wrong_answers(step, held)
        for answer in wrong:
            at = played.at
            found = played.answer(answer)
            assert found.verdict == "miss", (step.ask.text, answer)
            assert found.right == ("" if free else held)
            assert bool(found.misread) == foreseen(step, answer), (step.ask.text, answer)
            played.at = at
        answer = wrong[0] if wrong else held
        assert answer, f"no answer holds: {step.ask.text}"
        marked = played.answer(answer)
        assert marked.verdict == ("hit" if right else "miss")
        assert marked.lanes.gpu == []
        assert marked.row.calls > 0, marked.row.name
        slices = (*marked.lanes.ranges, *marked.lanes.ops, *marked.lanes.inside)
        assert any(one.decides for one in slices), step.show
        lines += [f"> {answer}", marked_text(marked)]
    lines += ["", end_text(played.document())]
    return "\n".join(lines).splitlines()


@pytest.mark.sweep(4)
@pytest.mark.parametrize("each", LESSONS, ids=lambda each: each.name)
def test_a_lesson_is_played_on_a_cpu(each: Lesson, here: LiveRecordings) -> None:
    for right in (True, False):
        lines = transcript(each, here, right=right)
        assert len(lines) <= LONGEST, "\n".join(lines)
        assert max(map(len, lines)) <= WIDTH
        assert not any("not in the trace" in line for line in lines)


@looped("each", LESSONS, ids=lambda each: each.name)
def test_no_sentence_that_is_asked_on_a_cpu_shows_a_gpu_at_work(each: Lesson) -> None:
    """It may compare: "on a GPU ..."; it may not say that something was launched or ran there."""
    for step in each.steps:
        texts = [step.ask.text, step.why, step.hint, step.program.code]
        if not step.skipped:
            said = " ".join(texts).replace("\n", " ")
            assert not {"{gpu.time}", "{gpu.busy}", "cuda"} & {*said.split()}, said
            assert not (isinstance(step.ask, HowMany) and "GPU" in step.ask.text)


def test_each_program_was_recorded_once(here: LiveRecordings) -> None:
    assert len(SAID) == len(set(SAID))


def test_what_no_rung_runs_says_so(here: LiveRecordings) -> None:
    with pytest.raises(MissingError, match="no rung of the ladder runs mlp_compiled"):
        here("h200/mlp_compiled.json.gz")
