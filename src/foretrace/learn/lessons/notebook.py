"""Lessons in a notebook: `foretrace.lesson(1)` shows the page of a lesson below the cell.

The page runs in a frame that cannot reach the notebook, and needs no widgets. Answers are not kept
there: such a frame has no storage.
"""

from __future__ import annotations

from foretrace.learn.lessons import lesson as lesson_of
from foretrace.learn.lessons import lessons
from foretrace.learn.lessons.answer_key import answer_key
from foretrace.learn.lessons.own import own_sitting
from foretrace.learn.lessons.sitting import Sitting
from foretrace.model import opening
from foretrace.model.trace import Trace
from foretrace.schema.display import View
from foretrace.show.html.lesson import lesson_html

HEIGHT = 760  # pixels: a question with its answer, without scrolling


class NotebookLesson:
    """One lesson or several: a page in a notebook, a line of text elsewhere."""

    def __init__(self, sittings: list[Sitting]) -> None:
        self.sittings = sittings

    def _repr_html_(self) -> str:
        page = lesson_html([answer_key(each) for each in self.sittings])
        return View(self._title, page, HEIGHT)._repr_html_()

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
