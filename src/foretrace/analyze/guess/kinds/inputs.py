"""The recorded shapes or strides of an op's tensor inputs, in order; scalars and lists are skipped.

Strides tell a transposed view: those of a 64x32 weight are 32x1, those of its `t()` are 1x32.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.grammar import Slot, list_of
from foretrace.analyze.guess.selection import Selection, select
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import ParseFailure, Selector, Token, key_at


def _takes(window: Window, query: kinds.Query) -> kinds.Measurement:
    if not window.evidence.trace.has("shapes"):
        raise Unknown("no shapes in this trace: record with record_shapes=True")
    op = query.what
    found, word = host_ops(window, op), "strides" if "strides" in query.args else "shapes"
    shapes = [window.evidence.inputs(event, word) for event in found.sure]
    wanted: list[list[int]] = query.args["shapes"]
    answers = [None if taken is None else taken[: len(wanted)] == wanted for taken in shapes]
    verdict = kinds.judge_all(query.args["quantifier"], answers, found.unclear)
    lacking = f"some calls have no {word}" if found.sure else f"no {op.text} in {window.label}"
    why = found.gap or lacking if verdict == "unknown" else ""
    measured = kinds.tally([_shown(taken, word) for taken in shapes]) or f"no {op.text}"
    return kinds.Measurement(verdict, measured, why, events=found.sure)


def host_ops(window: Window, op: Selector) -> Selection:
    """The calls of a host op; `Unknown` when the selector is something else."""
    if op.kind != "op":
        name = f"aten::{op.word or 'mm'}"
        raise Unknown(f"`{op.text}` is not a host op; write its name, as in {name}")
    return select(window, op)


def _shown(shapes: list[list[int]] | None, word: str) -> str:
    if shapes is None:
        return f"no {word}"
    return " and ".join("x".join(map(str, shape)) for shape in shapes)


def _shape(tokens: Sequence[Token], place: int) -> tuple[list[int], int]:
    sizes = key_at(tokens, place).split("x")
    if not all(size.isascii() and size.isdigit() and len(size) < 16 for size in sizes):
        raise ParseFailure(place, ["a shape such as 8192x768"])
    return [int(size) for size in sizes], place + 1


KIND = kinds.GuessKind(
    "inputs",
    35,
    ("{quantifier:quantifier} {what:selector} takes|take [strides] {shapes:shapes}",),
    kinds.per_window(_takes),
    slots={
        "shapes": Slot(
            "one or more shapes such as 8192x768, with commas or `and`", list_of(_shape, least=1)
        ),
    },
)
