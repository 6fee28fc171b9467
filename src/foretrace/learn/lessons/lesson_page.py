"""A lesson as a page: every answer is marked beforehand, so that the page needs no trace.

For a free prediction the page holds measures with a number and statements about kernels. Every
value and every verdict comes from marking a prediction. `foretrace.lesson(1)` shows the page below
the cell of a notebook, in a frame that cannot reach the notebook and keeps no answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil, floor

from msgspec import structs, to_builtins

from foretrace.base.display import View
from foretrace.base.errors import UsageError
from foretrace.base.patterns import regex
from foretrace.base.terminal import plain
from foretrace.check import Guess
from foretrace.check.traits import ABSENT, UNSTATED, Field, described, value_of, value_text
from foretrace.check.words import (
    DTYPES,
    FAMILY_WORDS,
    KERNEL_BOUNDS,
    UNITS,
    Amount,
    Compare,
    op_words,
)
from foretrace.learn.lessons import lesson as lesson_of
from foretrace.learn.lessons import lessons
from foretrace.learn.lessons.documents import (
    AskedStep,
    HowMany,
    KnownMeasure,
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
        try:
            return scene.marked(ask.holds.replace("{}", number)).verdict
        except UsageError:  # the prediction takes whole numbers alone
            return "error"

    decimals = DECIMALS[:1] if verdict("0.5") == "error" else DECIMALS
    ranges = [_range(verdict, other.right or "0", each) for each in decimals]
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


def _end(hits: Callable[[int], bool], start: int, way: int, furthest: int = _FURTHEST) -> int:
    """The last number that hits, up or down from one that does; found by halving."""
    inside, outside = 0, 1
    while outside < furthest and hits(start + way * outside):
        inside, outside = outside, outside * 2
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if hits(start + way * middle) else (inside, middle)
    return start + way * inside


_COUNTED = ("kernels", "memcpy", "memset", "launches", "sync", "cpu kernels")
_TIMED = ("gpu time", "cpu time", "wall time")
_SHARES = ("gpu busy", "gpu idle")
# dimension -> a unit, and into how many parts of the base unit a value is read
_FINEST = {"count": ("", 1), "time": (" ns", 10), "share": ("%", 10**8)}
_LARGEST = 10**15  # the language takes no longer number
_TRAITS = (*DTYPES, *FAMILY_WORDS, *(f"{bound}-bound" for bound in KERNEL_BOUNDS))
_QUANTIFIERS = ("every", "some", "no")
_ELSE = "another-value"  # a value that no kernel states
_QUOTED = regex("`([^`]+)`")


def predictable(scene: Scene, examples: str) -> PagePredictable:
    """The measures of one call and the statements about its kernels, marked.

    What `examples` quotes is marked as well: a reader will try it.
    """
    # The roles of the kernels of a call, and the ops that they do; a matmul is a gemm.
    rows = [scene.evidence.operation(row) for row in scene.call.rows.tolist()]
    kernels = [each for each in rows if each.kind == "kernel"]
    done = {word for each in kernels for word in each.does & op_words()} - {*MATMULS}
    subjects = sorted({each.role for each in kernels} | done)
    words = [(name, "count") for name in (*_COUNTED, *subjects)]
    words += [(name, "time") for name in (*_TIMED, *(f"{each} time" for each in subjects))]
    words += [(name, "share") for name in _SHARES]
    measures = {name: known for name, unit in words if (known := _measure(name, unit, scene))}
    quoted = _parsed(_QUOTED.findall(examples), scene)
    every = {text: _stated(guess, scene) for text, guess in quoted.items()}
    every |= dict(_statements(["kernel", *subjects], scene))
    places = dict[str, int]()  # many statements have one text: it is written once
    statements = {
        text: (verdict, places.setdefault(measured, len(places)))
        for text, (verdict, measured) in every.items()
    }
    return PagePredictable(measures, statements, [*places])


def _measure(name: str, dimension: str, scene: Scene) -> KnownMeasure | None:
    """The value; None where the trace lacks it, or where calls differ in it."""
    unit, parts = _FINEST[dimension]
    guess = scene.prediction(f"{name} >= 0{unit}")

    def holds(compare: str, at: int) -> bool:
        amount = Amount("", at / parts)
        changed = {"compare": Compare(compare), "number": amount, "amount": amount}
        return scene.marked(replace(guess, args={**guess.args, **changed})).verdict == "hit"

    shown = scene.marked(guess)
    if shown.verdict != "hit":
        return None
    least = _end(partial(holds, ">="), 0, 1, _LARGEST)
    if dimension == "count" and not holds("<=", least):
        return None
    return KnownMeasure(least / parts, UNITS[dimension], shown.measured)


def _statements(subjects: Iterable[str], scene: Scene) -> Iterator[tuple[str, tuple[str, str]]]:
    """`every gemm is bf16`, `some gemm has tile 256x128`, `every last gemm has stages 4`.

    The page reads `last gemm has stages 4` as the latter, which says the same.
    """
    traits = _parsed((f"every kernel is {trait}" for trait in _TRAITS), scene)
    for subject in subjects:
        fields = (
            f"every kernel has {field.name}{value}"
            for field in described()
            for value in _values(scene, subject, field)
        )
        rest = traits | _parsed(fields, scene)
        named = [
            (subject, _QUANTIFIERS),
            *((f"{nth} {subject}", ("every",)) for nth in ("first", "last")),
        ]
        for one, quantifiers in named:
            what = scene.prediction(f"every {one} is bf16").args["what"]
            for text, guess in rest.items():
                for quantifier in quantifiers:
                    args = {**guess.args, "what": what, "quantifier": quantifier}
                    says = text.removeprefix("every kernel ")
                    yield f"{quantifier} {one} {says}", _stated(replace(guess, args=args), scene)


def _parsed(texts: Iterable[str], scene: Scene) -> dict[str, Guess]:
    """Those that are predictions: some values would have to be quoted."""
    found = {}
    for text in texts:
        with suppress(UsageError):
            found[text.lower().replace(_ELSE, "*")] = scene.prediction(text)
    return found


def _stated(guess: Guess, scene: Scene) -> tuple[str, str]:
    found = scene.marked(guess)
    return found.verdict, measured_text(found)


def _values(scene: Scene, subject: str, field: Field) -> list[str]:
    """What may be said of a field of names: that it is there, its values, another one."""
    rows = scene.selected(subject).sure
    roles = {scene.evidence.operation(row).role for row in rows}
    values = [value_of(scene.evidence, row, field) for row in rows]
    known = [value for value in values if value is not UNSTATED]
    applies = not field.roles or roles & {*field.roles}
    if field.source not in ("name", "case") or not known or not applies:
        return []
    texts = {text.lower() for value in known if value is not ABSENT for text in _written(value)}
    return ["", *(f" {text}" for text in sorted(texts)), f" {_ELSE}"]


def _written(value: object) -> list[str]:
    """The ways to write a value: sizes may be cut short, and of several words one is enough."""
    if not isinstance(value, list):
        return [value_text(value)]
    if all(isinstance(item, int) for item in value):
        return ["x".join(map(str, value[:size])) for size in range(1, len(value) + 1)]
    return [str(item) for item in value]


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
