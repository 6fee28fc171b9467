"""A lesson as a page: every answer is marked beforehand, so that the page needs no trace.

For a free prediction the page holds quantities with their values, and words that hold of kernels.
`foretrace.lesson(1)` shows the page below
the cell of a notebook, in a frame that cannot reach the notebook and keeps no answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor

from msgspec import structs, to_builtins

from foretrace.base.display import View
from foretrace.base.terminal import plain
from foretrace.check.judging import COUNT, DTYPES, SHARE, SIZES, Facts, Value, fact_text
from foretrace.check.language import UNITS, Unknown
from foretrace.check.quantities import QUANTITIES
from foretrace.check.selectors import LIBRARIES
from foretrace.learn.lessons import lesson as lesson_of
from foretrace.learn.lessons import lessons
from foretrace.learn.lessons.documents import (
    AskedStep,
    HowMany,
    KnownMeasure,
    KnownWords,
    LessonPage,
    LessonStep,
    MarkedAnswer,
    PageDrawing,
    PageLane,
    PagePredictable,
    PageReply,
    PageStep,
    PickOne,
    RightRange,
)
from foretrace.learn.lessons.lines import WIDTH, answer_text, legend_parts, shown_lanes
from foretrace.learn.lessons.own import own_sitting
from foretrace.learn.lessons.scene import Scene
from foretrace.learn.lessons.sitting import DIGITS, Sitting, marked, measured_text
from foretrace.pages.page import page
from foretrace.trace import opening
from foretrace.trace.trace import Trace
from foretrace.work.families import MATMULS

DECIMALS = range(4)  # more than anybody types; the page rounds what has more
_OTHER = "987654321"  # a number that nobody gives: how all the others fare
_FURTHEST = 2**40  # where the search for the end of a range stops


def lesson_html(lessons: Sequence[LessonPage]) -> str:
    """The page of one lesson or several."""
    title = lessons[0].title if len(lessons) == 1 else "Lessons"
    return page(plain(title), {"kind": "lessons", "lessons": _safe(to_builtins(lessons))})


def _safe(value: object) -> object:
    """Each line of each text without marks that turn it around; what is no text as it is."""
    if isinstance(value, dict):
        return {key: _safe(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(each) for each in value]
    return "\n".join(map(plain, value.split("\n"))) if isinstance(value, str) else value


def lesson_page(sitting: Sitting, kept_as: str = "") -> LessonPage:
    """Every question of a lesson with every answer; progress has it under `kept_as`, if at all."""
    lesson = sitting.lesson
    steps = [_step(sitting, at) for at in range(len(lesson.steps))]
    return LessonPage(lesson.number, kept_as, lesson.title, steps, list(lesson.read))


def _step(sitting: Sitting, at: int) -> PageStep:
    step, asked = sitting.lesson.steps[at], sitting.asked(at)
    if asked.skipped:
        return PageStep(asked, "skipped")
    scene, asked = sitting.scene(step), structs.replace(asked, code=step.program.code)
    if isinstance(step.ask, PickOne):
        digits = DIGITS[: len(step.ask.choices)]
        marks = {digit: marked(step, digit, scene) for digit in digits}
        return _answered(PageStep(asked, "choice", marks["1"].right), marks)
    if isinstance(step.ask, HowMany):
        return _number(step, step.ask, scene, asked)
    some = marked(step, "kernels >= 0", scene)
    known = predictable(scene, f"{step.ask.text} {step.hint} {step.why}")
    return _answered(PageStep(asked, "prediction", predictable=known), {"": some})


def _answered(step: PageStep, marks: Mapping[str, MarkedAnswer]) -> PageStep:
    """With what is said to each answer, and what decides it."""
    some, replies = next(iter(marks.values())), dict[str, PageReply]()
    for answer, mark in marks.items():
        # a prediction is marked by the page, and the reason alone is the same for all
        said = mark.why if step.kind == "prediction" else answer_text(mark)
        replies[answer] = PageReply(mark.verdict, said, mark.misread)
    lanes = [
        PageLane(name, [(e.label, e.start_ns, e.end_ns, e.number, e.decides) for e in slices])
        for name, slices in shown_lanes(some.lanes, WIDTH)
    ]
    call = some.lanes
    drawing = PageDrawing(call.region, call.length_ns, lanes, *legend_parts(call, WIDTH))
    has_gpu = bool(call.gpu)
    return structs.replace(step, replies=replies, drawing=drawing, row=some.row, has_gpu=has_gpu)


def _number(step: LessonStep, ask: HowMany, scene: Scene, asked: AskedStep) -> PageStep:
    """The right number, those that the lesson foresees, and any other."""
    other = marked(step, _OTHER, scene)
    given = filter(None, (other.right, *ask.misread))
    marks = {"": other} | {number: marked(step, number, scene) for number in given}

    def verdict(number: str) -> str:
        return scene.marked(ask.holds.replace("{}", number)).verdict

    ranges = [_range(verdict, other.right or "0", each) for each in DECIMALS]
    return _answered(PageStep(asked, "number", other.right, ranges=ranges), marks)


def _range(verdict: Callable[[str], str], right: str, decimals: int) -> RightRange:
    """The numbers of so many decimals that hit: those around one that does."""

    def hits(at: int) -> bool:
        return at >= 0 and verdict(f"{at / 10**decimals:.{decimals}f}") == "hit"

    value = float(right) * 10**decimals
    starts = [at for at in (floor(value), ceil(value)) if hits(at)]
    if not starts:
        return RightRange(1, 0)
    return RightRange(_end(hits, starts[0], -1), _end(hits, starts[0], 1))


def _end(hits: Callable[[int], bool], start: int, way: int) -> int:
    """The last number that hits, up or down from one that does; found by halving."""
    inside, outside = 0, 1
    while outside < _FURTHEST and hits(start + way * outside):
        inside, outside = outside, outside * 2
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if hits(start + way * middle) else (inside, middle)
    return start + way * inside


_QUOTED = re.compile("`([^`]+)`")
_STATED = ("dtype", "library", "family", "layout", "tile", "stages", "vec", "splitk")
_AMOUNTS = {COUNT, SHARE, *SIZES}


def predictable(scene: Scene, examples: str) -> PagePredictable:
    """Quantities of one call with their values, and words that hold of its kernels.

    What `examples` quotes is marked as well: a reader will try it.
    """
    operations = [scene.evidence.operation(row) for row in scene.call.rows.tolist()]
    kernels = [each for each in operations if each.kind == "kernel"]
    done = {word for each in kernels for word in each.does if word.isidentifier()} - {*MATMULS}
    subjects = sorted({each.role for each in kernels} | done)
    named = [name for name, each in QUANTITIES.items() if not each.reads.least]
    names = [name for name in named if QUANTITIES[name].unit in _AMOUNTS]
    names += [f"{name}({each})" for each in subjects for name in ("count", "time", "share")]
    measures = {name: known for name in names if (known := _measure(name, scene))}
    places = [each for role in subjects for each in (role, f"first {role}", f"last {role}")]
    stated = [f"{name}({of})" for name in _STATED for of in ("kernel", *places)]
    words = {name: said for name in stated if (said := _words(name, scene))}
    quoted = {text: scene.marked(text) for text in _QUOTED.findall(examples)}
    marks = {
        text: (mark.verdict, measured_text(mark))
        for text, mark in quoted.items()
        if mark.verdict != "error"  # a command
    }
    return PagePredictable(measures, words, marks)


def _measure(name: str, scene: Scene) -> KnownMeasure | None:
    """The value; None where the trace lacks it, or where calls differ in it."""
    try:
        value = scene.value(name)
    except Unknown:
        return None
    if not isinstance(value, Value) or value.low != value.high:
        return None
    if value.shown_as == COUNT and scene.marked(f"{name} == {value.low:.0f}").verdict != "hit":
        return None
    units = {unit: size for unit, (measures, size) in UNITS.items() if measures == value.measures}
    plain = {"": 1.0} if not value.measures else {}
    return KnownMeasure(value.low, plain | units, value.text)


def _words(name: str, scene: Scene) -> KnownWords | None:
    """Every word that holds of all kernels, by marking; None where the trace does not say."""
    try:
        facts = scene.value(name)
    except Unknown:
        return None
    if not isinstance(facts, Facts) or None in facts.values:
        return None
    said = {fact_text(value) for value in facts.values}
    said |= {text[:at] for text in said for at, mark in enumerate(text) if mark == "x"}
    said |= {word for text in said for word in text.split()}
    said |= {"yes", "no"} if {*map(type, facts.values)} == {bool} else {*DTYPES, *LIBRARIES.split()}
    texts = {text: text if text.isalnum() else f'"{text}"' for text in sorted(said) if text}
    held = [
        text for text, word in texts.items() if scene.marked(f"{name} == {word}").verdict == "hit"
    ]
    return KnownWords(held, facts.text)


HEIGHT = 760  # pixels: a question with its answer, without scrolling


class NotebookLesson:
    """One lesson or several: a page in a notebook, a line of text elsewhere."""

    def __init__(self, sittings: list[Sitting]) -> None:
        self.sittings = sittings

    def _repr_html_(self) -> str:
        text = lesson_html([lesson_page(each) for each in self.sittings])
        return View(self._title, text, HEIGHT)._repr_html_()

    @property
    def _title(self) -> str:
        first = self.sittings[0].lesson
        if len(self.sittings) > 1:
            return f"{len(self.sittings)} lessons"
        return f"Lesson {first.number}: {first.title}" if first.number else first.title

    def __repr__(self) -> str:
        return f"{self._title} (a notebook shows it; at a terminal: foretrace lesson)"


def lesson(about: int | str | Trace | None = None) -> NotebookLesson:
    """The lesson of that number or name, or one about a trace; every lesson without any."""
    if isinstance(about, Trace):
        return NotebookLesson([own_sitting(about)])
    chosen = lessons() if about is None else [lesson_of(str(about))]
    return NotebookLesson([Sitting(each, opening.open) for each in chosen])
