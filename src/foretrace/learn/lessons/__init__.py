"""Lessons: a program is shown, the reader predicts, and the trace answers at once.

    texts/*.py    one lesson each: text, code, questions (`schema/lesson.py`), and no answer
    scene         a recording opened for a step: marks predictions, measures facts of the text
    lanes         one call on the host and on the GPU, as data
    sitting       a lesson while it is played: answers marked, progress kept
    lesson_page   every answer marked beforehand, for a page and for a notebook
    live          the programs of a lesson, recorded on this machine (needs torch)
    own, own_cpu  a lesson on any trace: questions that it decides, built from it

Everything here returns Structs of `schema/documents/lesson.py`; `render/lesson_page.py` draws them.
Other packages add lessons through entry points in the group `foretrace.lessons`.
"""

from __future__ import annotations

from foretrace.base import plugins
from foretrace.base.errors import UsageError
from foretrace.learn.lessons import texts
from foretrace.schema.lesson import Lesson

_TOUR = ("matmul_add", "linear", "compile_it")


def lessons() -> list[Lesson]:
    """Every lesson, in the order of their numbers."""
    found = plugins.declared(texts, "LESSON", Lesson, "foretrace.lessons")
    return sorted(found, key=lambda lesson: (lesson.number, lesson.name))


def is_lesson(word: str) -> bool:
    """Whether there is a lesson of that number or name."""
    return any(word in (str(each.number), each.name) for each in lessons())


def lesson(word: str) -> Lesson:
    """The lesson of that number or name."""
    known = lessons()
    for each in known:
        if word in (str(each.number), each.name):
            return each
    listed = ", ".join(f"{each.number} ({each.name})" for each in known)
    raise UsageError(f"no lesson {word!r}: choose from {listed}")


def tour() -> Lesson:
    """The first question of three lessons, for two minutes: how many kernels each launches."""
    steps = tuple(lesson(name).steps[0] for name in _TOUR)
    return Lesson(number=0, name="tour", title="Guess first, then look", steps=steps, read=())
