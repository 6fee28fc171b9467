"""Two results of `foretrace try` side by side: which fixes pay in one of them alone.

A fix is measured in turns with the script untouched, so that its ratio holds whatever else a run
met: it changed where the intervals of the two ratios do not overlap, or where its results do.
"""

from __future__ import annotations

from foretrace.base.units import change_text, percent_text, ratio_text
from foretrace.compare.documents import (
    ChangeEntry,
    CompareTriesDocument,
    CompareVerdict,
    TriedChange,
    TriedSide,
)
from foretrace.compare.measure import change
from foretrace.read.tried import DIFFERS, KEPT, NO_GAIN, RAISED, TriedFix, TryDocument

SCHEMA = 1
LOST, GAINED, LESS, MORE, SAME = "lost", "gained", "less", "more", "same"
NOT_COMPARED = "not compared"
ANSWERS = (LOST, GAINED, LESS, MORE, SAME, NOT_COMPARED)


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
