"""What a page can mark of free predictions: measures with a number, and statements about kernels.

Every value and every verdict comes from marking a prediction: what the language means is decided
there alone. Each word is parsed once, and its meaning put into the others' predictions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from foretrace.analyze.guess import Guess
from foretrace.analyze.guess.amounts import UNITS, Amount, Compare
from foretrace.analyze.guess.fields import ABSENT, UNSTATED, Field, described, value_of, value_text
from foretrace.analyze.guess.selectors import DTYPES, FAMILY_WORDS, KERNEL_BOUNDS, op_words
from foretrace.base.errors import UsageError
from foretrace.learn.lessons.marking import measured_text
from foretrace.learn.lessons.scene import Scene
from foretrace.names.families import MATMULS
from foretrace.schema.answer_key import KnownMeasure, Predictable, Stated

_COUNTED = ("kernels", "memcpy", "memset", "launches", "sync", "cpu kernels")
_TIMED = ("gpu time", "cpu time", "wall time")
_SHARES = ("gpu busy", "gpu idle")
# dimension -> a unit, and into how many parts of the base unit a value is read
_FINEST = {"count": ("", 1), "time": (" ns", 10), "share": ("%", 10**8)}
_LARGEST = 10**15  # the language takes no longer number
_TRAITS = (*DTYPES, *FAMILY_WORDS, *(f"{bound}-bound" for bound in KERNEL_BOUNDS))
_QUANTIFIERS = ("every", "some", "no")
_ELSE = "another-value"  # a value that no kernel states
_QUOTED = re.compile("`([^`]+)`")


def predictable(scene: Scene, examples: str) -> Predictable:
    """The measures of one call and the statements about its kernels, marked.

    What `examples` quotes is marked as well: a reader will try it.
    """
    subjects = _subjects(scene)
    words = [(name, "count") for name in (*_COUNTED, *subjects)]
    words += [(name, "time") for name in (*_TIMED, *(f"{each} time" for each in subjects))]
    words += [(name, "share") for name in _SHARES]
    measures = {name: known for name, unit in words if (known := _measure(name, unit, scene))}
    quoted = _parsed(_QUOTED.findall(examples), scene)
    statements = {text: _stated(guess, scene) for text, guess in quoted.items()}
    return Predictable(measures, statements | dict(_statements(["kernel", *subjects], scene)))


def _subjects(scene: Scene) -> list[str]:
    """The roles of the kernels of a call, and the ops that they do; a product is a gemm."""
    rows = [scene.evidence.operation(row) for row in scene.call.rows.tolist()]
    kernels = [each for each in rows if each.kind == "kernel"]
    done = {word for each in kernels for word in each.does & op_words()} - {*MATMULS}
    return sorted({each.role for each in kernels} | done)


def _measure(name: str, dimension: str, scene: Scene) -> KnownMeasure | None:
    """The value, found by halving; None where the trace lacks it, or where calls differ in it."""
    unit, parts = _FINEST[dimension]
    guess = scene.prediction(f"{name} >= 0{unit}")

    def holds(compare: str, at: int) -> bool:
        amount = Amount("", at / parts)
        changed = {"compare": Compare(compare), "number": amount, "amount": amount}
        return scene.marked(replace(guess, args={**guess.args, **changed})).verdict == "hit"

    shown = scene.marked(guess)
    if shown.verdict != "hit":
        return None
    least, beyond = 0, 1
    while holds(">=", beyond) and beyond < _LARGEST:
        least, beyond = beyond, beyond * 2
    while beyond - least > 1:
        middle = (least + beyond) // 2
        least, beyond = (middle, beyond) if holds(">=", middle) else (least, middle)
    if dimension == "count" and not holds("<=", least):
        return None
    return KnownMeasure(least / parts, UNITS[dimension], shown.measured)


def _statements(subjects: Iterable[str], scene: Scene) -> Iterator[tuple[str, Stated]]:
    """`every gemm is bf16`, `some gemm has tile 256x128`, `every last gemm has stages 4`.

    The page reads `last gemm has stages 4` as the latter, which says the same.
    """
    traits = _parsed((f"every kernel is {trait}" for trait in _TRAITS), scene)
    for subject in subjects:
        fields = (
            f"every kernel has {field.name}{value}"
            for field in described()
            for value in _values(scene, subject, field)
        )
        rest = traits | _parsed(fields, scene)
        named = [
            (subject, _QUANTIFIERS),
            *((f"{nth} {subject}", ("every",)) for nth in ("first", "last")),
        ]
        for one, quantifiers in named:
            what = scene.prediction(f"every {one} is bf16").args["what"]
            for text, guess in rest.items():
                for quantifier in quantifiers:
                    args = {**guess.args, "what": what, "quantifier": quantifier}
                    says = text.removeprefix("every kernel ")
                    yield f"{quantifier} {one} {says}", _stated(replace(guess, args=args), scene)


def _parsed(texts: Iterable[str], scene: Scene) -> dict[str, Guess]:
    """Those that are predictions: some values would have to be quoted."""
    found = {}
    for text in texts:
        with suppress(UsageError):
            found[text.lower().replace(_ELSE, "*")] = scene.prediction(text)
    return found


def _stated(guess: Guess, scene: Scene) -> Stated:
    found = scene.marked(guess)
    return Stated(found.verdict, measured_text(found))


def _values(scene: Scene, subject: str, field: Field) -> list[str]:
    """What may be said of a field of names: that it is there, its values, another one."""
    rows = scene.selected(subject).sure
    roles = {scene.evidence.operation(row).role for row in rows}
    values = [value_of(scene.evidence, row, field) for row in rows]
    known = [value for value in values if value is not UNSTATED]
    applies = not field.roles or roles & {*field.roles}
    if field.source not in ("name", "case") or not known or not applies:
        return []
    texts = {text.lower() for value in known if value is not ABSENT for text in _written(value)}
    return ["", *(f" {text}" for text in sorted(texts)), f" {_ELSE}"]


def _written(value: object) -> list[str]:
    """The ways to write a value: sizes may be cut short, and of several words one is enough."""
    if not isinstance(value, list):
        return [value_text(value)]
    if all(isinstance(item, int) for item in value):
        return ["x".join(map(str, value[:size])) for size in range(1, len(value) + 1)]
    return [str(item) for item in value]
