"""Facts in the text of a lesson: what stands between braces is measured, never typed.

    {kernels}, {gemm time}, {gpu time}, {wall time}, {gelu bytes}    a measure of one call
    {layout of first gemm}, {call of gelu}, {name of ops}            a field, each value once
    {gpu busy}, {gpu idle}, {compile time}                           a share; a time spent once
    {in optimizer: kernels}                                          a measure of another region
    {A: gpu time}                                                    the same of the recording A
    {HBM roof}, {L2 roof}, {L2 size}                                 of the GPU, as measured

What the trace does not hold is said to be missing.
"""

from __future__ import annotations

import re

from foretrace.analyze.guess.fields import read_field, value_of, value_text
from foretrace.analyze.guess.grammar import SLOTS
from foretrace.analyze.guess.measures import Measure
from foretrace.analyze.guess.selection import Selection
from foretrace.analyze.guess.tokens import ParseFailure, split
from foretrace.analyze.guess.windows import Unknown, split_scope, windows_of
from foretrace.base.errors import UsageError
from foretrace.base.units import bytes_text
from foretrace.learn.lessons.scene import Scene
from foretrace.model.about import device_of
from foretrace.show.overview.roof_words import roofs_entry

MISSING = "not in the trace"
_FACT = re.compile(r"\{([^{}]+)\}")
ROOFS = ("HBM roof", "L2 roof", "L2 size")
# measures that predictions alone have
_PREDICTED = {"gpu busy": "0%", "gpu idle": "0%", "compile time": "0 s"}


def filled(text: str, scene: Scene) -> str:
    """The text with every fact measured."""
    return _FACT.sub(lambda found: _known(found[1], scene), text)


def _known(text: str, scene: Scene) -> str:
    try:
        return _fact(text, scene)
    except Unknown:
        return f"({MISSING}: {text})"
    except ParseFailure as wrong:
        said = f"{{{text}}} in a lesson: not a measure, a field or a share"
        raise UsageError(said) from wrong


def _fact(text: str, scene: Scene) -> str:
    if text.startswith("A: ") and scene.against:
        return _fact(text.removeprefix("A: "), scene.against)
    if text in ROOFS:
        return _roof(text, scene)
    if text in _PREDICTED:
        verdict = scene.marked(f"{text} >= {_PREDICTED[text]}")
        if verdict.verdict == "unknown":
            raise Unknown(verdict.why)
        return verdict.measured.partition(" (")[0]
    field, of, selector = text.partition(" of ")
    return _field(field, scene, scene.selected(selector)) if of else _measure(text, scene)


def _roof(text: str, scene: Scene) -> str:
    """A rate or a size of the GPU that the recording is of."""
    roofs = roofs_entry(device_of(scene.evidence.trace.about))
    if roofs is None:
        raise Unknown(text)
    if text == "L2 size":
        return bytes_text(_needed(roofs.l2_bytes, text))
    rate = roofs.hbm_gbps if text == "HBM roof" else roofs.l2_gbps
    return f"{bytes_text(_needed(rate, text) * 1e9)}/s"


def _needed(value: float | None, text: str) -> float:
    if value is None:
        raise Unknown(text)
    return value


def _field(name: str, scene: Scene, found: Selection) -> str:
    """The values of a field, each once; host events have a name alone."""
    evidence = scene.evidence
    if name == "call":
        values = [evidence.launch_name(row) for row in found.sure]
    elif name == "name" and found.on_gpu:
        values = [evidence.operation(row).name for row in found.sure]
    elif name == "name":
        values = [evidence.name(event) for event in found.sure]
    else:
        field = read_field(split(name), 0)[0]
        values = [value_text(value_of(evidence, row, field)) for row in found.sure]
    return ", ".join(dict.fromkeys(values))


def _measure(text: str, scene: Scene) -> str:
    scope, tokens = split_scope(text, split(text))
    measure, end = SLOTS["measure"].read(tokens, 0)
    if not isinstance(measure, Measure) or end != len(tokens):
        raise ParseFailure(end, [])
    calls = scene.calls if scope.kind == "trace" else windows_of(scope, scene.evidence)
    return measure.shown(measure.median(calls))
