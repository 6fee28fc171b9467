"""How many different elements the loads or stores of a kernel reach together.

Sums of digits are counted without listing their values. A digit above all others, or below all
others, multiplies. The rest is listed, up to a limit. Beyond that the answer is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from foretrace.analyze.why.index_forms import (
    LISTED,
    Digit,
    Form,
    Index,
    Root,
    added,
    linear,
    operation,
    values,
)

_MARKED = 1 << 26  # bytes, one for each element


class Reached(Struct, frozen=True):
    """The elements that one load or store reaches: `index` wherever `mask` holds."""

    index: Index
    mask: Index = 1


class _Part(Struct, frozen=True):
    """Values of `index` where every form of `tests` is below 0."""

    index: Form
    tests: tuple[Form, ...] = ()


def different(reached: Iterable[Reached]) -> int | None:
    """The number of different elements that these reach together; None if it is not known."""
    found = list(reached)
    parts = [_part(each) for each in found]
    known = [part for part in parts if part is not None]
    if len(known) == len(parts):
        refined = _refined([part for part in known if all(test.low < 0 for test in part.tests)])
        narrowed = [part for each in refined or () if (part := _narrowed(each)) is not None]
        counted = None if refined is None else _count(_undominated(narrowed))
        if counted is not None:
            return counted
    return _listed(found)


def _part(reached: Reached) -> _Part | None:
    index, tests = linear(reached.index), _tests(reached.mask)
    return None if index is None or tests is None else _Part(index, tests)


def _tests(mask: Index) -> tuple[Form, ...] | None:
    """The mask as forms that must be below 0; one that always is, is left out."""
    if isinstance(mask, int):
        return () if mask else (Form(0),)
    if isinstance(mask, Root):
        return None
    if mask.kind == "&":
        both = [_tests(part) for part in mask.parts]
        known = [tests for tests in both if tests is not None]
        return tuple(test for tests in known for test in tests) if known == both else None
    if mask.kind not in ("<", "<=", ">", ">="):
        return None
    a, b = mask.parts if mask.kind in ("<", "<=") else mask.parts[::-1]
    difference = operation("-", a, b)
    form = None if difference is None else linear(difference)
    if form is None:
        return None
    form = added(form, Form(-1)) if mask.kind in ("<=", ">=") else form
    return () if form.high < 0 else (form,)


def _refined(parts: Sequence[_Part]) -> list[_Part] | None:
    """The same parts over digits that do not overlap, so that each varies freely."""
    forms = [form for part in parts for form in (part.index, *part.tests)]
    cuts: dict[Root, set[int]] = {}
    for root, place, size in (digit for form in forms for digit in form.terms):
        cuts.setdefault(root, {1, root.size}).update((place, place * size))
    places = {root: sorted(found) for root, found in cuts.items()}
    if any(b % a for found in places.values() for a, b in pairwise(found)):
        return None
    return [
        _Part(_cut(part.index, places), tuple(_cut(test, places) for test in part.tests))
        for part in parts
    ]


def _cut(form: Form, places: dict[Root, list[int]]) -> Form:
    whole = Form(form.constant)
    for (root, place, size), factor in form.terms.items():
        for low, high in pairwise(places[root]):
            if place <= low and high <= place * size:
                digit = (root, low, high // low)
                whole = added(whole, Form(0, {digit: factor * (low // place)}))
    return whole


def _narrowed(part: _Part) -> _Part | None:
    """Without tests of a single digit: that digit runs over less. None where nothing is left."""
    for test in part.tests:
        if len(test.terms) != 1:
            continue
        ((digit, factor),) = test.terms.items()
        root, place, size = digit
        # factor * digit + constant < 0
        edge = (-test.constant - 1) // abs(factor) if factor > 0 else test.constant // -factor + 1
        low, high = (0, min(edge + 1, size)) if factor > 0 else (max(edge, 0), size)
        if low >= high:
            return None
        inner = (Root(f"{root.name}+{low * place}", root.size), place, high - low)
        forms = [_moved(form, digit, low, inner) for form in (part.index, *part.tests)]
        left = tuple(form for form in forms[1:] if form.high >= 0)
        return _narrowed(_Part(forms[0], left))
    return part


def _moved(form: Form, digit: Digit, low: int, inner: Digit) -> Form:
    """The form with `low + inner` in the place of a digit."""
    factor = form.terms.get(digit, 0)
    rest = {each: value for each, value in form.terms.items() if each != digit}
    here = {inner: factor} if factor and inner[2] > 1 else {}
    return Form(form.constant + factor * low, rest | here)


def _undominated(parts: list[_Part]) -> list[_Part]:
    """Without what lies inside another part that has every value of its range."""
    kept: list[_Part] = []
    for part in sorted(parts, key=lambda each: each.index.low - each.index.high):
        if not any(_holds(other, part) for other in kept):
            kept.append(part)
    return kept


def _holds(other: _Part, part: _Part) -> bool:
    if other == part:
        return True
    low, high = other.index.low, other.index.high
    inside = low <= part.index.low and part.index.high <= high
    return inside and not other.tests and _unmasked(other.index) == high - low + 1


def _count(parts: list[_Part]) -> int | None:
    """The size of the union. Digits that keep all values apart are taken out first."""
    factor = 1
    while parts and (digit := _separate(parts)):
        factor *= digit[2]
        parts = [_without(part, digit) for part in parts]
    if not parts:
        return 0
    if len(parts) == 1 and not parts[0].tests:
        alone = _unmasked(parts[0].index)
        if alone is not None:
            return factor * alone
    rest = _enumerated(parts)
    return None if rest is None else factor * rest


def _separate(parts: list[_Part]) -> Digit | None:
    """A digit of all parts, free of tests, that alone tells the values above or below it apart."""
    tested = {digit for part in parts for test in part.tests for digit in test.terms}
    for digit, factor in parts[0].index.terms.items():
        if digit in tested or any(part.index.terms.get(digit) != factor for part in parts):
            continue
        rest = [_without(part, digit).index for part in parts]
        if abs(factor) > max(form.high for form in rest) - min(form.low for form in rest):
            return digit
        step = abs(factor) * digit[2]
        constants = {form.constant % step for form in rest}
        if len(constants) == 1 and not any(c % step for f in rest for c in f.terms.values()):
            return digit
    return None


def _without(part: _Part, digit: Digit) -> _Part:
    terms = {each: factor for each, factor in part.index.terms.items() if each != digit}
    return _Part(Form(part.index.constant, terms), part.tests)


def _unmasked(form: Form) -> int | None:
    """The number of values of one form: digits in rising order extend a run or repeat all of it."""
    factor, step, run, span = 1, 0, 1, 0
    for size, coefficient in sorted(
        ((digit[2], abs(c)) for digit, c in form.terms.items()), key=lambda pair: pair[1]
    ):
        if coefficient > span:
            # the runs so far repeat at a distance; only a lone run may grow
            if factor == 1 and run == 1:
                step = coefficient
                run = size
            elif factor == 1 and coefficient == step * run:
                run *= size
            else:
                factor *= size
        elif factor == 1 and coefficient % step == 0:
            run += coefficient // step * (size - 1)
        else:
            return None
        span += coefficient * (size - 1)
    return factor * run


def _enumerated(parts: list[_Part]) -> int | None:
    found = []
    for part in parts:
        digits = {d for form in (part.index, *part.tests) for d in form.terms}
        if prod(digit[2] for digit in digits) > LISTED:
            return None
        index: Index = _expression(part.index)
        listed = values((index, *(_expression(test) for test in part.tests)))
        if listed is None:
            return None
        held = np.all([test < 0 for test in listed[1:]], axis=0) if part.tests else np.True_
        found.append(listed[0][np.broadcast_to(held, listed[0].shape)])
    return _distinct(found)


def _expression(form: Form) -> Index:
    """The form again as an expression, each digit a variable of its own."""
    whole: Index | None = form.constant
    for (root, place, size), factor in form.terms.items():
        variable = Root(f"{root.name}.{root.size}.{place}", size)
        whole = operation("+", whole, operation("*", variable, factor))
    assert whole is not None
    return whole


def _listed(found: list[Reached]) -> int | None:
    """Every value, written down: for what is not a sum of digits."""
    elements = []
    for each in found:
        both = values((each.index, each.mask))
        if both is None:
            return None
        elements.append(both[0][both[1] != 0])
    return _distinct(elements)


def _distinct(found: list[NDArray[np.int64]]) -> int:
    kept = [each.ravel() for each in found if each.size]
    if not kept:
        return 0
    low, high = min(int(each.min()) for each in kept), max(int(each.max()) for each in kept)
    if high - low >= _MARKED:
        return len(np.unique(np.concatenate(kept)))
    marks = np.zeros(high - low + 1, np.bool_)  # ten times as fast as sorting
    for each in kept:
        marks[each - low] = True
    return int(marks.sum())
