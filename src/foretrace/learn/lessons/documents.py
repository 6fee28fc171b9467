"""`foretrace lesson N --json`: what was asked, answered and shown.

A lesson (`Lesson`, which each file of `lessons/texts` holds) has text, code and questions, and no
answer. An answer is a prediction in the language of `foretrace check`, and the trace marks it. Text
may hold facts between braces (`{time(gelu)}`, `{a.gpu.time}`), which are measured when the text is
shown. A page has no trace to ask: it carries every answer, marked beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, field

from foretrace.trace.recording import AverageRow


class LaneSlice(Struct, frozen=True):
    """A stretch of a lane; times count from the start of the call.

    A launch and the GPU operation that it launched have the same `number`; an op has 0. `decides`
    marks what the question is about.
    """

    label: str
    start_ns: int
    end_ns: int
    number: int
    decides: bool


class Lanes(Struct, frozen=True):
    """One call on the host and on the GPU: ranges of the program in it, outermost ops, ops inside
    them, launches, GPU work.
    """

    region: str
    length_ns: int
    ranges: list[LaneSlice]
    ops: list[LaneSlice]
    inside: list[LaneSlice]
    calls: list[LaneSlice]
    gpu: list[LaneSlice]


class AskedStep(Struct, frozen=True):
    """A question as it is shown; `code` is empty where the step before shows the same.

    `skipped` is why it is not asked here; there is then neither text nor device.
    """

    number: int
    of: int
    recording: str
    device: str
    code: str
    text: str
    choices: list[str]
    hint: str
    skipped: str = ""


class MarkedAnswer(Struct, frozen=True):
    """How an answer fared: `right` is what to type to be right, with the `text` of that choice.

    `why` is the reason for it, or what the trace lacks to decide; `misread` is what a wrong answer
    overlooked. `measured` is what the trace shows where any prediction may be typed; `right` is
    then empty. `published` is what the articles print of their A100, where they do.
    """

    answer: str
    verdict: Annotated[str, Meta(pattern="^(hit|miss|unknown)$")]
    right: str
    text: str
    measured: str
    why: str
    misread: str
    lanes: Lanes
    row: AverageRow
    published: str = ""


class PlayedStep(Struct, frozen=True):
    """A question and its marked answer; None where it was skipped."""

    asked: AskedStep
    marked: MarkedAnswer | None


class LessonDocument(Struct, frozen=True):
    """A lesson as it was played; the reader skipped some questions, and some are `not_asked`."""

    schema: int
    number: int
    name: str
    title: str
    hits: int
    misses: int
    skipped: int
    steps: list[PlayedStep]
    read: list[str]
    not_asked: int = 0


class Program(Struct, frozen=True):
    """What a step is about: a recording by its short name, and the code that it is a recording of.

    The run record beside the recording names the region, and the rung that runs the same code.
    """

    recording: str
    code: str


class PickChoice(Struct, frozen=True):
    """One of several answers: right where every prediction of `holds` does.

    `misread` is what somebody who chose it overlooked; it is shown where the answer is wrong.
    """

    text: str
    holds: tuple[str, ...]
    misread: str = ""


class PickOne(Struct, frozen=True):
    """A question with several answers, one of which is right."""

    text: str
    choices: tuple[PickChoice, ...]


class HowMany(Struct, frozen=True):
    """A question whose answer is a number: it takes the place of `{}` in `holds`.

    `misread` explains wrong numbers that people give.
    """

    text: str
    holds: str
    misread: Mapping[str, str] = field(default_factory=dict)


class Predict(Struct, frozen=True):
    """A free prediction in the language of `foretrace check`."""

    text: str


class LessonStep(Struct, frozen=True):
    """One question: what it is about, what is asked, and what decides it.

    `why` is the reason in two sentences, `hint` what `?` prints. `show` is a quantity that counts
    what decides it (`count(gelu)`, `calls(aten::t)`), `row` is an op of the profiler's table.
    `against` is the recording that predictions call `a`, `a100` the name of what the articles
    print.

    `cpu` is what `--live` asks instead where there is no GPU, or the line that says why nothing is
    asked there. A step with `skipped` is not asked, for that reason.
    """

    program: Program
    ask: PickOne | HowMany | Predict
    why: str
    hint: str
    show: str
    row: str
    against: str = ""
    a100: str = ""
    cpu: LessonStep | str = "only a GPU decides this"
    skipped: str = ""


class Lesson(Struct, frozen=True):
    """One lesson: five to ten minutes. `read` is what to read next, one line each."""

    number: int
    name: str
    title: str
    steps: tuple[LessonStep, ...]
    read: tuple[str, ...]


class RightRange(Struct, frozen=True):
    """The right numbers of so many decimals, times ten to the power of these: `least` to `most`.

    `least` is greater than `most` where no such number is right.
    """

    least: int
    most: int


class KnownMeasure(Struct, frozen=True):
    """What `QUANTITY COMPARE NUMBER UNIT` is marked with: a value, and how many of it a unit is.

    `shown` is the value for people.
    """

    value: float
    units: dict[str, float]
    shown: str


class KnownWords(Struct, frozen=True):
    """What `QUANTITY == WORD` is marked with: the words that hold of every kernel."""

    hold: list[str]
    shown: str


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
    """What the page can mark of free predictions.

    `marks` has whole predictions that the question names, each with its verdict and what was
    measured.
    """

    measures: dict[str, KnownMeasure]
    words: dict[str, KnownWords]
    marks: dict[str, tuple[str, str]]


class PageStep(Struct, frozen=True):
    """A question, how to mark an answer to it, and what is shown then; a skipped one has neither.

    `kind` is choice, number, prediction, or skipped. `replies` has each choice by its digit; or the
    right number, numbers that people give, and under "" any other; of a prediction an example.
    `ranges` has the right numbers without decimals, with one, with two, ….
    `has_gpu` is whether the table has columns of the GPU.
    """

    asked: AskedStep
    kind: str
    right: str = ""
    replies: dict[str, PageReply] = {}
    ranges: list[RightRange] = []
    predictable: PagePredictable | None = None
    drawing: PageDrawing | None = None
    row: AverageRow | None = None
    has_gpu: bool = False


class LessonPage(Struct, frozen=True):
    """A lesson with every answer; progress has it under `kept_as`, if at all."""

    number: int
    kept_as: str
    title: str
    steps: list[PageStep]
    read: list[str]


DOCUMENTS = {"lesson": LessonDocument}
