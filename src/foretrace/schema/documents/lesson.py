"""`foretrace lesson N --json`: what was asked, answered and shown."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


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


class AverageRow(Struct, frozen=True):
    """One row of the profiler's table, summed over the recording. Host times are profiled ones."""

    name: str
    calls: int
    self_cpu_ns: int
    cpu_ns: int
    self_gpu_ns: int
    gpu_ns: int


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


DOCUMENTS = {"lesson": LessonDocument}
