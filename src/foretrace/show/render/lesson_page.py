"""A lesson for a terminal: the list, a question, an answer with what decides it, the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foretrace.base.units import plural, time_text
from foretrace.schema.documents.lesson import AskedStep, AverageRow, LessonDocument, MarkedAnswer
from foretrace.schema.lesson import Lesson
from foretrace.show.render.lanes import lanes_lines, legend
from foretrace.show.render.terminal import Section, drawn, painted, table

WIDTH = 80
KEYS = "? hint, s skip, b back, q stop"
INFLATED = "Numbers are of the recording named; CPU times include profiler overhead."
_MARKS = {"hit": "hit", "miss": "MISS", "unknown": "unknown"}
_COLUMNS = ("Name (profiled)", "Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls")


def list_text(lessons: Sequence[Lesson], standing: Mapping[str, str]) -> str:
    """One line per lesson, with how it stands."""
    rows = [
        [str(lesson.number), lesson.title, plural(len(lesson.steps), "question"), stands]
        for lesson in lessons
        for stands in [standing.get(lesson.name, "")]
    ]
    return table(["lesson", "", "", ""], rows, left=(1, 2, 3), width=WIDTH, indent="")


def title_text(lesson: Lesson, *, bold: bool = False) -> str:
    """The first line of a lesson, with the keys."""
    head = f"LESSON {lesson.number}" if lesson.number else "LESSON"
    return f"{painted(head) if bold else head}  {lesson.title}  ({KEYS})"


def asked_text(asked: AskedStep, *, bold: bool = False) -> str:
    """The code where it is new, the question, and what may be answered."""
    count = f"{asked.number} of {asked.of}"
    if asked.skipped:
        return drawn(
            [Section("", (f"{count}  not asked on this machine: {asked.skipped}",))], width=WIDTH
        )
    source = Section(f"{count}  {asked.recording}, {asked.device}", code=asked.code)
    question = asked.text if asked.code else f"{count}  {asked.text}"
    choices = [f"{digit}  {text}" for digit, text in enumerate(asked.choices, 1)]
    line = "   ".join(choices)
    lines = [line] if 0 < len(line) <= WIDTH else choices
    said = Section("", (*question.split("\n"), *lines))
    shown = [drawn([source], bold=bold, width=WIDTH)] if asked.code else []
    return "\n".join([*shown, drawn([said], width=WIDTH)])


def marked_text(marked: MarkedAnswer, *, bold: bool = False) -> str:
    """Hit or miss, the reason, one call drawn, and the row of the profiler's table."""
    wrong = f"Not {marked.answer}. {marked.misread}" if marked.misread else ""
    said = [text for text in (wrong, answer_text(marked)) if text]
    labels = (_MARKS[marked.verdict], " " * len(_MARKS[marked.verdict]))
    reason = Section("", labelled=list(zip(labels, said, strict=False)))
    return "\n".join(
        [
            drawn([reason], bold=bold, width=WIDTH),
            *lanes_lines(marked.lanes, WIDTH),
            drawn([Section("", (legend(marked.lanes, WIDTH),))], width=WIDTH),
            _row(marked.row, on_gpu=bool(marked.lanes.gpu)),
        ]
    )


def answer_text(marked: MarkedAnswer) -> str:
    """What holds, the reason for it, and what a reader of the articles has before them."""
    printed = f" The articles' A100: {marked.published}." if marked.published else ""
    return f"{_said(marked)} {marked.why}{printed}"


def told_text(marked: MarkedAnswer) -> str:
    """The answer and its reason alone, for whom nothing is asked."""
    return drawn([Section("", (answer_text(marked),))], width=WIDTH)


def _said(marked: MarkedAnswer) -> str:
    """What holds: the right answer, or what was measured."""
    if marked.verdict == "unknown":
        return "The trace does not decide this:"
    if marked.measured:
        return f"Measured: {marked.measured}."
    if not marked.right:
        return "None of these holds here."
    return f"It is {marked.right}: {marked.text}." if marked.text else f"It is {marked.right}."


def _row(row: AverageRow, *, on_gpu: bool) -> str:
    """The row of the profiler's table; a CPU has no column for another device."""
    times = (row.self_cpu_ns, row.cpu_ns, row.self_gpu_ns, row.gpu_ns)
    cells = [row.name, *map(time_text, times), str(row.calls)]
    shown = range(len(cells)) if on_gpu else (0, 1, 2, 5)
    return table(
        [_COLUMNS[at] for at in shown], [[cells[at] for at in shown]], width=WIDTH, indent=""
    )


def end_text(document: LessonDocument, left: str = "") -> str:
    """The score and what to read; of a lesson that was left, how to go on."""
    skipped = f", {document.skipped} skipped" if document.skipped else ""
    absent = f", {document.not_asked} not asked" if document.not_asked else ""
    count = len(document.steps) - document.not_asked
    score = f"{document.hits} of {count} right{skipped}{absent}"
    told = [INFLATED] if any(step.marked for step in document.steps) else []
    bullets = [(line, "") for line in (*told, *([left] if left else document.read))]
    return drawn([Section(score, bullets=bullets)], width=WIDTH)
