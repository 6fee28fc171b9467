"""Facts in the text of a lesson: what stands between braces is measured, never typed.

{kernels}, {gemm time}, {gpu time}, {wall time}, {gelu bytes}     a measure of one call
{layout of first gemm}, {name of last gemm}                       a field of kernels
{gpu busy}, {gpu idle}                                            a share of the time
{A: gpu time}                                                     the same of the recording A
"""

from __future__ import annotations

import re

from foretrace.errors import UsageError
from foretrace.guess.fields import read_field, value_of, value_text
from foretrace.guess.grammar import SLOTS
from foretrace.guess.measures import Measure
from foretrace.guess.tokens import ParseFailure, split
from foretrace.lessons.scene import Scene

_FACT = re.compile(r"\{([^{}]+)\}")
_SHARES = ("gpu busy", "gpu idle")


def filled(text: str, scene: Scene) -> str:
    """The text with every fact measured."""
    return _FACT.sub(lambda found: _fact(found[1], scene), text)


def _fact(text: str, scene: Scene) -> str:
    if text.startswith("A: ") and scene.against:
        return _fact(text.removeprefix("A: "), scene.against)
    if text in _SHARES:
        return scene.marked(f"{text} >= 0%").measured.partition(" ")[0]
    field, of, selector = text.partition(" of ")
    if of:
        return _field(field, scene, scene.selected(selector).sure)
    return _measure(text, scene)


def _field(name: str, scene: Scene, rows: list[int]) -> str:
    """The values of a field, each once."""
    if name == "name":
        values = [scene.evidence.operation(row).name for row in rows]
    else:
        field = read_field(split(name), 0)[0]
        values = [value_text(value_of(scene.evidence, row, field)) for row in rows]
    return ", ".join(dict.fromkeys(values))


def _measure(text: str, scene: Scene) -> str:
    tokens = split(text)
    try:
        measure, end = SLOTS["measure"].read(tokens, 0)
    except ParseFailure:
        measure, end = None, -1
    if not isinstance(measure, Measure) or end != len(tokens):
        raise UsageError(f"{{{text}}} in a lesson: not a measure, a field or a share")
    return measure.shown(measure.median(scene.calls))
