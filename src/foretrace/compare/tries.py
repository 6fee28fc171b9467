"""`foretrace compare A.json B.json --json` of two results of `foretrace try`: what changed.

A fix is measured in turns with the script untouched, so that its ratio holds whatever else a run
met: it changed where the intervals of the two ratios do not overlap, or where its results do.
"""

from __future__ import annotations

import os

from msgspec import Struct

from foretrace.base.tables import WORDS, Column, Line, Table
from foretrace.base.units import change_text, percent_text, ratio_text
from foretrace.compare.documents import ChangeEntry, CompareVerdict
from foretrace.compare.measure import change
from foretrace.read.tried import DIFFERS, KEPT, NO_GAIN, RAISED, TriedFix, TryDocument

SCHEMA = 1
LOST, GAINED, LESS, MORE, SAME = "lost", "gained", "less", "more", "same"
NOT_COMPARED = "not compared"
ANSWERS = (LOST, GAINED, LESS, MORE, SAME, NOT_COMPARED)


class TriedSide(Struct, frozen=True):
    """One result: the script, where it ran, and the fixes that paid together."""

    script: str
    device: str
    torch: str
    found_by: str
    best: list[str]


class TriedChange(Struct, frozen=True):
    """One fix in both results. `a` and `b` are how many times faster it made a step.

    They are null where it was not measured. `answer` is lost (it paid in A alone), gained, less,
    more, same (the intervals overlap) or not compared; `text` says it in a sentence. `base` are
    the fixes that were on for both sides.
    """

    name: str
    title: str
    base: list[str]
    a: float | None
    b: float | None
    answer: str
    text: str


class CompareTriesDocument(Struct, frozen=True):
    """B compared with A. `untouched_ns` and `best_ns` are times per step; the noise of the best is
    not known. `verdict` is about the untouched script.
    """

    schema: int
    a: TriedSide
    b: TriedSide
    verdict: CompareVerdict
    untouched_ns: ChangeEntry
    best_ns: ChangeEntry
    fixes: list[TriedChange]


DOCUMENTS = {"compare_tries": CompareTriesDocument}


def compare_tries(a: TryDocument, b: TryDocument) -> CompareTriesDocument:
    """Compare result B with result A."""
    untouched = change(a.baseline.median_ns, b.baseline.median_ns, (a.noise + b.noise) / 2)
    found = {(fix.name, *fix.base): fix for fix in b.fixes}
    rows = [_change(fix, found[key]) for fix in a.fixes if (key := (fix.name, *fix.base)) in found]
    return CompareTriesDocument(
        SCHEMA,
        _side(a),
        _side(b),
        _verdict(a, b, untouched),
        untouched,
        change(a.best.median_ns, b.best.median_ns),
        sorted(rows, key=lambda row: ANSWERS.index(row.answer)),
    )


def _side(found: TryDocument) -> TriedSide:
    titles = {fix.name: fix.title for fix in found.fixes}
    best = [titles.get(name, name) for name in found.best.fixes]
    return TriedSide(found.script, found.device, found.torch, found.found_by, best)


def _verdict(a: TryDocument, b: TryDocument, untouched: ChangeEntry) -> CompareVerdict:
    """Whether the untouched script is faster; two machines or two scripts are not comparable."""
    times = change_text(untouched.a, untouched.b)
    noise = percent_text(untouched.noise)
    text = f"untouched {times} per step ({ratio_text(untouched.ratio)}; noise {noise})"
    pairs = {
        "two machines": (a.device, b.device),
        "two scripts": tuple(each.script.replace("\\", "/").rpartition("/")[2] for each in (a, b)),
        "two kinds of steps": (a.found_by, b.found_by),
    }
    apart = [f"{what}: {old} in A, {new} in B" for what, (old, new) in pairs.items() if old != new]
    if apart:
        return CompareVerdict("different", f"{'; '.join(apart)}; {text}", "tries")
    if not untouched.beyond:
        return CompareVerdict("inconclusive", f"{text}, within the noise", "tries")
    return CompareVerdict("faster" if (untouched.saved or 0) > 0 else "slower", text, "tries")


def _change(a: TriedFix, b: TriedFix) -> TriedChange:
    answer = _answer(a, b)
    if a.ratio is None or b.ratio is None:
        text = f"{a.title}: {_words(a)} in A, {_words(b)} in B"
    else:
        text = f"{a.title} was {_words(a)}, is {_words(b)}"
    return TriedChange(a.name, a.title, a.base, a.ratio, b.ratio, answer, f"{text}: {answer}")


def _answer(a: TriedFix, b: TriedFix) -> str:
    measured = a.ratio is not None and b.ratio is not None
    if not measured and RAISED not in (a.state, b.state):
        return NOT_COMPARED
    (low, high), (least, most) = _interval(a), _interval(b)
    equal = measured and low <= most and least <= high
    within_noise = equal and {a.state, b.state} <= {KEPT, NO_GAIN}
    if (a.state == KEPT) != (b.state == KEPT) and not within_noise:
        return LOST if a.state == KEPT else GAINED
    if not measured:
        return NOT_COMPARED
    return SAME if equal else LESS if (b.ratio or 0) < (a.ratio or 0) else MORE


def _interval(fix: TriedFix) -> tuple[float, float]:
    """The interval of the ratio; the longest time is the lowest ratio."""
    ratio, median = fix.ratio or 1.0, fix.median_ns or 1.0
    return ratio * median / (fix.high_ns or median), ratio * median / (fix.low_ns or median)


def _words(fix: TriedFix) -> str:
    """How many times faster, and what else is to be known; the state where nothing was measured."""
    if fix.ratio is None:
        return f"{fix.state} ({fix.why})" if fix.why else fix.state
    return ratio_text(fix.ratio) + {DIFFERS: " with other results", RAISED: " until it raised"}.get(
        fix.state, ""
    )


def page(found: CompareTriesDocument) -> list[Table]:
    """Both sides, the verdict, the fixes that changed, and a row for each that both measured."""
    rows = [row for row in found.fixes if row.a is not None and row.b is not None]
    times = f"{change_text(found.best_ns.a, found.best_ns.b)} ({ratio_text(found.best_ns.ratio)})"
    a, b = (", then ".join(side.best) or "the script as it is" for side in (found.a, found.b))
    lines = [
        Line(letter, f"{os.path.basename(side.script)} · {side.device} · torch {side.torch}")
        for letter, side in (("A", found.a), ("B", found.b))
    ]
    lines.append(Line(found.verdict.answer.upper(), found.verdict.text))
    lines.append(Line("BEST", f"{times}: {a}" if a == b else f"{times}: {a} in A; {b} in B"))
    lines += [
        Line(row.answer.upper(), row.text) for row in found.fixes if row.answer in (LOST, GAINED)
    ]
    columns = [
        Column("fix", lambda row: f"+ {row.title}" if row.base else row.title, WORDS),
        Column("A", "a", "ratio"),
        Column("B", "b", "ratio"),
        Column(
            "change", lambda row: "within the noise" if row.answer == SAME else row.answer, WORDS
        ),
    ]
    known = (row for row in found.fixes if row.a is not None or row.b is not None)
    rest = [Line("", row.text) for row in known if row.answer == NOT_COMPARED]
    tables = [Table("", columns, rows) if rows else None, Table(lines=rest) if rest else None]
    return [Table(lines=lines), *filter(None, tables)]
