"""An answer key: every answer to the questions of a lesson, marked beforehand.

A page has no trace to ask. It carries the key, and marks an answer by looking it up.
"""

from __future__ import annotations

from msgspec import Struct, field

from foretrace.schema.documents.lesson import AskedStep, MarkedAnswer


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
