"""What a lesson is: `Lesson`, which each file of `lessons/texts` holds.

A lesson holds text, code and questions, and no answer. An answer is a prediction in the language of
`foretrace check`, and the trace marks it. Text may hold facts between braces (`{gelu time}`,
`{layout of first gemm}`, `{A: gpu time}`), which are measured when the text is shown.

A page has no trace to ask. It carries an answer key: every answer marked beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from foretrace.schema.documents.lesson import AskedStep, MarkedAnswer


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

    `why` is the reason in two sentences, `hint` what `?` prints. `show` selects what decides it (a
    selector of the language, such as `gelu` or `aten::t`), `row` is an op of the profiler's table.
    `against` is the recording that predictions call A, `a100` the name of what the articles print.

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
    """What `NAME COMPARE NUMBER UNIT` is marked with: a value, and how many of it a unit is.

    `shown` is the value for people.
    """

    value: float
    units: dict[str, float]
    shown: str


class Stated(Struct, frozen=True):
    """How one prediction in words fares, and what was measured."""

    verdict: str
    measured: str


class Predictable(Struct, frozen=True):
    """What a page can mark of free predictions.

    `statements` are whole predictions in lower case; one that ends in `*` is for every value that
    no other names.
    """

    measures: dict[str, KnownMeasure]
    statements: dict[str, Stated]


class StepKey(Struct, frozen=True):
    """A question and its answers; `kind` is choice, number, prediction, or skipped (not asked).

    `marks` has each choice by its digit; or the right number, numbers that people give, and under
    "" any other. `ranges` has the right numbers without decimals, with one, with two, …; the first
    of these alone where a whole number is asked. Of a prediction `marks` has an example, for what
    it shows.
    """

    asked: AskedStep
    kind: str
    marks: dict[str, MarkedAnswer]
    right: str
    ranges: list[RightRange] = field(default_factory=list)
    predictable: Predictable | None = None


class LessonKey(Struct, frozen=True):
    """A lesson with every answer; progress has it under `kept_as`, if at all."""

    number: int
    kept_as: str
    title: str
    steps: list[StepKey]
    read: list[str]
