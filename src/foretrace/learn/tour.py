"""The questions of the tour: the first of three lessons, for two minutes."""

from __future__ import annotations

from foretrace.learn.lessons import lesson
from foretrace.schema.lesson import Lesson

_NAMES = ("matmul_add", "linear", "compile_it")


def tour() -> Lesson:
    """Two ops, a layer and a compiled MLP: how many kernels each launches."""
    steps = tuple(lesson(name).steps[0] for name in _NAMES)
    return Lesson(number=0, name="tour", title="Guess first, then look", steps=steps, read=())
