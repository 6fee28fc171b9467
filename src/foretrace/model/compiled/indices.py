"""Index expressions of generated code as sums of digits, and how many elements they reach.

A variable runs from 0 to its size. Inductor cuts it into digits, `(x // place) % size`. Nearly
every index is a constant plus digits times coefficients. Most digits of such a sum multiply the
number of elements: those above all others, and those below. The rest is listed, up to a limit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from foretrace.base.arrays import distinct
from foretrace.model.compiled.syntax import dotted

LISTED = 1 << 22  # values that are listed at most: 32 MiB for each step, some 0.1 s
_MARKED = 1 << 26  # bytes, one for each element
_LARGEST = 1 << 40  # of a value: times what is listed it still fits 64 bits
_DIVISIONS = {"div_floor_integer": ast.FloorDiv(), "remainder_integer": ast.Mod()}
_WHOLE = ("tl.int", "tl.uint")


class Root(Struct, frozen=True):
    """A variable that takes every value from 0 to `size` - 1."""

    name: str
    size: int


Digit = tuple[Root, int, int]  # (root // place) % size


class Form(Struct, frozen=True):
    """A constant plus a sum of digits, each times a coefficient other than 0."""

    constant: int
    terms: dict[Digit, int] = {}

    @property
    def low(self) -> int:
        """The smallest value."""
        return self.constant + sum(min(c * (d[2] - 1), 0) for d, c in self.terms.items())

    @property
    def high(self) -> int:
        """The largest value."""
        return self.constant + sum(max(c * (d[2] - 1), 0) for d, c in self.terms.items())


class Mask(Struct, frozen=True):
    """A condition that holds where every form is below 0."""

    tests: tuple[Form, ...] = ()


Value = Form | Mask
Known = Mapping[str, Value | None]


def variable(name: str, size: int, times: int = 1) -> Form:
    """A variable of this size, times a number."""
    return Form(0, {(Root(name, size), 1, size): times} if size > 1 and times else {})


def added(a: Form, b: Form, times: int = 1) -> Form:
    """`a + times * b`."""
    terms = dict(a.terms)
    for digit, factor in b.terms.items():
        terms[digit] = terms.get(digit, 0) + factor * times
    kept = {digit: factor for digit, factor in terms.items() if factor}
    return Form(a.constant + b.constant * times, kept)


def divided(form: Form, by: int) -> tuple[Form, Form] | None:
    """Quotient and remainder: what `by` divides, and a rest below it. None if there is no such."""
    if by <= 0 or form.low < 0:
        return None
    upper, lower = Form(form.constant // by), Form(form.constant % by)
    for digit, factor in form.terms.items():
        root, place, size = digit
        cut = by // factor if factor > 0 and by % factor == 0 else 0
        if factor % by == 0:
            upper = added(upper, Form(0, {digit: factor // by}))
        elif 1 < cut < size and (size % cut == 0 or place * size >= root.size):
            upper = added(upper, Form(0, {(root, place * cut, -(-size // cut)): 1}))
            lower = added(lower, Form(0, {(root, place, cut): factor}))
        else:
            lower = added(lower, Form(0, {digit: factor}))
    return (upper, lower) if 0 <= lower.low <= lower.high < by else None


def index_of(node: ast.expr, known: Known) -> Form | None:
    """The index that an expression is; None where data or a float decides it."""
    found = value_of(node, known)
    return found if isinstance(found, Form) else None


def mask_of(node: ast.expr, known: Known) -> Mask | None:
    """The condition that an expression is; a number holds unless it is 0."""
    found = value_of(node, known)
    if isinstance(found, Form):
        return None if found.terms else Mask(() if found.constant else (Form(0),))
    return found


def value_of(node: ast.expr, known: Known) -> Value | None:
    """The index or the condition that an expression is."""
    match node:
        case ast.Constant(value=int(whole)):
            return Form(int(whole))
        case ast.Name(id=name):
            return known.get(name)
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            one, two = mask_of(left, known), mask_of(right, known)
            return None if one is None or two is None else Mask(one.tests + two.tests)
        case ast.BinOp(left=left, op=kind, right=right):
            return _computed(kind, index_of(left, known), index_of(right, known))
        case ast.Compare(left=left, ops=[kind], comparators=[right]):
            return _compared(kind, index_of(left, known), index_of(right, known))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _computed(ast.Sub(), Form(0), index_of(inner, known))
        case ast.Subscript(value=inner):  # `[:, None]`
            return value_of(inner, known)
        case ast.Call():
            return _called(node, known)
    return None


def _computed(kind: ast.operator, a: Form | None, b: Form | None) -> Form | None:
    found = None
    match kind:
        case _ if a is None or b is None:
            return None
        case ast.Add() | ast.Sub():
            found = added(a, b, 1 if isinstance(kind, ast.Add) else -1)
        case ast.Mult() if not (a.terms and b.terms):
            a, b = (a, b) if a.terms else (b, a)
            found = added(Form(0), a, b.constant)
        case ast.FloorDiv() | ast.Mod() if not b.terms:
            both = divided(a, b.constant)
            found = both[isinstance(kind, ast.Mod)] if both else None
    return found if found and max(abs(found.low), abs(found.high)) < _LARGEST else None


def _compared(kind: ast.cmpop, a: Form | None, b: Form | None) -> Mask | None:
    """A comparison as a form that must be below 0; one that always is, is left out."""
    if a is None or b is None or not isinstance(kind, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return None
    less, more = (a, b) if isinstance(kind, ast.Lt | ast.LtE) else (b, a)
    form = added(less, more, -1)
    form = added(form, Form(-1)) if isinstance(kind, ast.LtE | ast.GtE) else form
    return Mask(() if form.high < 0 else (form,))


def _called(node: ast.Call, known: Known) -> Value | None:
    name = dotted(node.func)
    helper = name.rpartition(".")[2]
    if name == "tl.full":
        return value_of(node.args[1], known) if len(node.args) > 1 else None
    if name == "tl.broadcast_to":
        return value_of(node.args[0], known) if node.args else None
    if helper in _DIVISIONS and len(node.args) == 2:
        return _computed(_DIVISIONS[helper], *(index_of(part, known) for part in node.args))
    if isinstance(node.func, ast.Attribute):
        whole = bool(node.args) and dotted(node.args[0]).startswith(_WHOLE)
        if node.func.attr == "broadcast_to" or (node.func.attr == "to" and whole):
            return value_of(node.func.value, known)
    return None


class Reached(Struct, frozen=True):
    """The elements that one load or store reaches: `index` wherever every test is below 0."""

    index: Form
    tests: tuple[Form, ...] = ()


def different(reached: Iterable[Reached]) -> int | None:
    """The number of different elements that these reach together; None if it is not known."""
    parts = [part for part in reached if all(test.low < 0 for test in part.tests)]
    refined = _refined(parts)
    if refined is None:
        return _listed(parts)
    parts, factor = [part for each in refined if (part := _narrowed(each)) is not None], 1
    while parts and (digit := _separate(parts)):
        factor *= digit[2]
        parts = [Reached(_without(part.index, digit), part.tests) for part in parts]
    rest = _listed(parts)
    return None if rest is None else factor * rest


def _refined(parts: Sequence[Reached]) -> list[Reached] | None:
    """The same parts over digits that do not overlap: each becomes a variable of its own."""
    forms = [form for part in parts for form in (part.index, *part.tests)]
    cuts: dict[Root, set[int]] = {}
    for root, place, size in (digit for form in forms for digit in form.terms):
        cuts.setdefault(root, {1, root.size}).update((place, place * size))
    places = {root: sorted(found) for root, found in cuts.items()}
    if any(b % a for found in places.values() for a, b in pairwise(found)):
        return None
    return [
        Reached(_cut(part.index, places), tuple(_cut(test, places) for test in part.tests))
        for part in parts
    ]


def _cut(form: Form, places: dict[Root, list[int]]) -> Form:
    whole = Form(form.constant)
    for (root, place, size), factor in form.terms.items():
        for low, high in pairwise(places[root]):
            if place <= low and high <= place * size:
                name = f"{root.name}.{root.size}.{low}"
                whole = added(whole, variable(name, high // low, factor * (low // place)))
    return whole


def _narrowed(part: Reached) -> Reached | None:
    """Without tests of a single digit: that digit runs over less. None where nothing is left."""
    for test in part.tests:
        if len(test.terms) != 1:
            continue
        ((digit, factor),) = test.terms.items()
        root, _, size = digit
        # factor * digit + constant < 0
        edge = (-test.constant - 1) // abs(factor) if factor > 0 else test.constant // -factor + 1
        low, high = (0, min(edge + 1, size)) if factor > 0 else (max(edge, 0), size)
        if low >= high:
            return None
        inner = added(Form(low), variable(f"{root.name}+{low}", high - low))
        index, *tests = (
            added(_without(form, digit), inner, form.terms.get(digit, 0))
            for form in (part.index, *part.tests)
        )
        return _narrowed(Reached(index, tuple(form for form in tests if form.high >= 0)))
    return part


def _separate(parts: list[Reached]) -> Digit | None:
    """A digit of all parts, free of tests, that alone tells the values above or below it apart."""
    tested = {digit for part in parts for test in part.tests for digit in test.terms}
    for digit, factor in parts[0].index.terms.items():
        if digit in tested or any(part.index.terms.get(digit) != factor for part in parts):
            continue
        rest = [_without(part.index, digit) for part in parts]
        if abs(factor) > max(form.high for form in rest) - min(form.low for form in rest):
            return digit
        step = abs(factor) * digit[2]
        constants = {form.constant % step for form in rest}
        if len(constants) == 1 and not any(c % step for f in rest for c in f.terms.values()):
            return digit
    return None


def _without(form: Form, digit: Digit) -> Form:
    return Form(form.constant, {each: c for each, c in form.terms.items() if each != digit})


def _listed(parts: Sequence[Reached]) -> int | None:
    """The size of the union, with every value written down; None if these are too many."""
    found = []
    for part in parts:
        forms = (part.index, *part.tests)
        roots = list({digit[0]: None for form in forms for digit in form.terms})
        if prod(root.size for root in roots) > LISTED:
            return None
        grids = dict(zip(roots, np.ix_(*(np.arange(root.size) for root in roots)), strict=True))
        values = np.broadcast_arrays(*(_values(form, grids) for form in forms))
        held = np.all([test < 0 for test in values[1:]], axis=0)
        found.append(values[0][np.broadcast_to(held, values[0].shape)])
    return _distinct([each for each in found if each.size])


def _values(form: Form, grids: Mapping[Root, NDArray[np.int64]]) -> NDArray[np.int64]:
    whole = np.asarray(form.constant, np.int64)
    for (root, place, size), factor in form.terms.items():
        whole = whole + factor * (grids[root] // place % size)
    return whole


def _distinct(found: list[NDArray[np.int64]]) -> int:
    if not found:
        return 0
    low, high = min(int(each.min()) for each in found), max(int(each.max()) for each in found)
    if high - low >= _MARKED:
        return len(distinct(np.concatenate(found)))
    marks = np.zeros(high - low + 1, np.bool_)  # ten times as fast as sorting
    for each in found:
        marks[each - low] = True
    return int(marks.sum())
