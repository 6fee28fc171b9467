"""The page of lessons: one file that asks, waits, and answers at once, without a trace or network.

What the page says is what the terminal says: `render/lesson_page.py` makes the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, to_builtins

from foretrace.base.terminal import plain
from foretrace.learn.lessons.documents import (
    AskedStep,
    KnownMeasure,
    LessonKey,
    RightRange,
    StepKey,
)
from foretrace.learn.lessons.lines import WIDTH, answer_text, legend_parts, shown_lanes
from foretrace.pages.page import page
from foretrace.trace.reach import AverageRow


class PageReply(Struct, frozen=True):
    """What is said to an answer; `misread` is what a wrong one overlooked."""

    verdict: str
    said: str
    misread: str


class PageLane(Struct, frozen=True):
    """A lane: label, start, end, number and whether it decides, of each slice."""

    name: str
    slices: list[tuple[str, int, int, int, bool]]


class PageDrawing(Struct, frozen=True):
    """One call: its lanes, and what the legend says."""

    region: str
    length_ns: int
    lanes: list[PageLane]
    length: str
    decides: str
    others: str


class PagePredictable(Struct, frozen=True):
    """What the page can mark; a statement has a verdict and the place of its text in `texts`."""

    measures: dict[str, KnownMeasure]
    statements: dict[str, tuple[str, int]]
    texts: list[str]


class PageStep(Struct, frozen=True):
    """A question, how to mark an answer to it, and what is shown then; a skipped one has neither.

    `has_gpu` is whether the table has columns of the GPU.
    """

    asked: AskedStep
    kind: str
    right: str
    replies: dict[str, PageReply]
    ranges: list[RightRange]
    predictable: PagePredictable | None
    drawing: PageDrawing | None
    row: AverageRow | None
    has_gpu: bool


class LessonPage(Struct, frozen=True):
    """One lesson of a page."""

    number: int
    kept_as: str
    title: str
    steps: list[PageStep]
    read: list[str]


def lesson_html(keys: Sequence[LessonKey]) -> str:
    """The page of one lesson or several."""
    lessons = [
        LessonPage(key.number, key.kept_as, key.title, [*map(_step, key.steps)], key.read)
        for key in keys
    ]
    title = keys[0].title if len(keys) == 1 else "Lessons"
    return page(plain(title), {"kind": "lessons", "lessons": _safe(to_builtins(lessons))})


def _step(key: StepKey) -> PageStep:
    some, replies = next(iter(key.marks.values()), None), dict[str, PageReply]()
    for answer, mark in key.marks.items():
        # a prediction is marked by the page, and the reason alone is the same for all
        said = mark.why if key.kind == "prediction" else answer_text(mark)
        replies[answer] = PageReply(mark.verdict, said, mark.misread)
    predictable, drawing = None, None
    if key.predictable:  # many statements have one text: it is written once
        known = key.predictable.statements
        places = dict[str, int]()
        statements = {
            text: (each.verdict, places.setdefault(each.measured, len(places)))
            for text, each in known.items()
        }
        predictable = PagePredictable(key.predictable.measures, statements, [*places])
    if some:
        found, lanes = some.lanes, []
        for name, slices in shown_lanes(found, WIDTH):
            cells = [(e.label, e.start_ns, e.end_ns, e.number, e.decides) for e in slices]
            lanes.append(PageLane(name, cells))
        legend = legend_parts(found, WIDTH)
        drawing = PageDrawing(found.region, found.length_ns, lanes, *legend)
    return PageStep(
        *(key.asked, key.kind, key.right, replies, key.ranges, predictable, drawing),
        some.row if some else None,
        has_gpu=bool(some and some.lanes.gpu),
    )


def _safe(value: object) -> object:
    """Each line of each text without marks that turn it around; what is no text as it is."""
    if isinstance(value, dict):
        return {key: _safe(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(each) for each in value]
    return "\n".join(map(plain, value.split("\n"))) if isinstance(value, str) else value
