"""Lessons in a notebook: `foretrace.lesson(1)` shows the page of a lesson below the cell.

The page runs in a frame that cannot reach the notebook, and needs no widgets. Answers are not kept
there: such a frame has no storage.
"""

from __future__ import annotations

from html import escape

from foretrace import opening
from foretrace.lessons import lesson as lesson_of
from foretrace.lessons import lessons
from foretrace.lessons.answer_key import answer_key
from foretrace.lessons.sitting import Sitting
from foretrace.render.html.lesson import lesson_html
from foretrace.schema.lesson import Lesson

HEIGHT = 760  # pixels: a question with its answer, without scrolling


class NotebookLesson:
    """One lesson or all of them: a page in a notebook, a line of text elsewhere."""

    def __init__(self, chosen: list[Lesson]) -> None:
        self.lessons = chosen

    def _repr_html_(self) -> str:
        sittings = [Sitting(each, opening.open) for each in self.lessons]
        page = escape(lesson_html([answer_key(each) for each in sittings]), quote=True)
        return (
            f'<iframe title="{escape(self._title, quote=True)}" sandbox="allow-scripts" '
            f'style="width: 100%; height: {HEIGHT}px; border: 1px solid #9aa7b7" '
            f'srcdoc="{page}"></iframe>'
        )

    @property
    def _title(self) -> str:
        (first, *others) = self.lessons
        return f"{len(self.lessons)} lessons" if others else f"Lesson {first.number}: {first.title}"

    def __repr__(self) -> str:
        number = "--list" if len(self.lessons) > 1 else self.lessons[0].number
        return f"{self._title} (a notebook shows it; at a terminal: foretrace lesson {number})"


def lesson(number: int | str | None = None) -> NotebookLesson:
    """The lesson of that number or name, for a notebook; every lesson without one."""
    return NotebookLesson(lessons() if number is None else [lesson_of(str(number))])
