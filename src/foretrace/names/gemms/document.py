"""The document of `foretrace gemms`: what was asked of a map, in one place."""

from __future__ import annotations

import re
from pathlib import Path

from foretrace.base.errors import UsageError
from foretrace.names.gemms import heat, near, predict, rules
from foretrace.names.gemms.entries import size_of
from foretrace.names.gemms.kinds import kind_of
from foretrace.names.gemms.table import GemmMap
from foretrace.schema.documents.gemms import (
    GemmsDocument,
    LiveMark,
    NearMatmul,
    PredictAnswer,
)
from foretrace.schema.gemms import DTYPES, EPILOGUES, LAYOUTS, GemmPoint

SCHEMA = 1
_KINDS = {"layout": LAYOUTS, "dtype": DTYPES, "epilogue": EPILOGUES}
LARGEST = 1 << 24  # of one size: the longest vocabulary has 2^18 words


def parse_size(
    text: str, dtype: str = "bf16", layout: str = "tn", epilogue: str = "none"
) -> GemmPoint:
    """`8192x3072x768`: M rows, N output features, K summed."""
    found = re.fullmatch(r"(\d{1,9})[x,*](\d{1,9})[x,*](\d{1,9})", text.strip().lower())
    if not found:
        raise UsageError(f"{text!r} is no size: give MxNxK, for example 8192x3072x768")
    m, n, k = (int(each) for each in found.groups())
    if not all(0 < each <= LARGEST for each in (m, n, k)):
        raise UsageError(f"{text!r}: each size is from 1 to {LARGEST}")
    for value, known in ((dtype, DTYPES), (layout, LAYOUTS), (epilogue, EPILOGUES)):
        if value not in known:
            raise UsageError(f"{value!r} is unknown: choose from {', '.join(known)}")
    return GemmPoint(m, n, k, layout, dtype, epilogue)


def parse_points(path: Path) -> list[GemmPoint]:
    """Matmuls from a file, one on a line: `64x4096x4096 nn fp16 bias+gelu`, kinds as needed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path}: not a list of matmuls: {problem}") from None
    texts = (line.partition("#")[0].split() for line in lines)
    found = dict.fromkeys(_parse_words(*words) for words in texts if words)
    if not found:
        raise UsageError(f"{path}: no matmul in it: give one MxNxK on each line")
    return list(found)


def _parse_words(size: str, *words: str) -> GemmPoint:
    kind = {}
    for word in words:
        value = word.replace("+", "_")
        name = next((name for name, known in _KINDS.items() if value in known), None)
        if name is None:
            known = ", ".join(each for values in _KINDS.values() for each in values)
            raise UsageError(f"{word!r} is unknown: choose from {known}")
        kind[name] = value
    return parse_size(size, **kind)


def mapped(found: GemmMap, kind: GemmPoint) -> GemmsDocument:
    """The map: how good its guesses are, its rules, and a plane of it."""
    plane, read_off = heat.plane(found, kind), rules.rules(found)
    return _document(found, accuracy=found.facts.accuracy, rules=read_off, heat=plane)


def near_to(found: GemmMap, point: GemmPoint) -> GemmsDocument:
    """Why a shape gets its kernel."""
    return _document(found, near=near.near(found, point))


def guessed(
    found: GemmMap, point: GemmPoint, live: LiveMark | None = None, not_live: str = ""
) -> GemmsDocument:
    """The kernel and the time of a shape, as the map suggests."""
    guess = predict.Predictor(found).guess(point)
    facts = found.facts
    roof_us = max(point.flops / facts.flops[point.dtype], point.bytes / facts.bytes_per_s) * 1e6
    answer = PredictAnswer(
        size_of(point),
        guess.measured,
        guess.family,
        guess.kernel,
        guess.short,
        kind_of(point),
        guess.agreement,
        guess.us,
        point.flops / guess.us / 1e6,
        100 * roof_us / guess.us,
        [NearMatmul(size_of(e.point), e.short, e.cold_us, e.octaves) for e in guess.neighbours],
        live,
        not_live,
    )
    return _document(found, accuracy=found.facts.accuracy, predict=answer)


def _document(found: GemmMap, **parts: object) -> GemmsDocument:
    facts = found.facts
    head = (SCHEMA, facts.device, facts.command, facts.environment, found.frame.height)
    return GemmsDocument(*head, **parts)  # type: ignore[arg-type]
