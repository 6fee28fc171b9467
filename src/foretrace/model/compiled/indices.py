"""Index expressions of generated code: whole numbers over variables, and as sums of digits.

A variable runs from 0 to its size. Inductor cuts it into digits, `(x // place) % size`. An index is
nearly always a constant plus digits times coefficients.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from foretrace.model.compiled.syntax import dotted

LISTED = 1 << 22  # values that are listed at most: 32 MiB for each step, some 0.1 s
_LARGEST = 1 << 40  # of a number in an index: times what is listed it still fits 64 bits
_DEEPEST = 60  # steps from an index to its variables; generated code has fewer than 10
_MARKED = 1 << 26  # bytes, one for each element
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.BitAnd: "&", ast.BitOr: "|", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_HELPERS = {
    "div_floor_integer": "//", "remainder_integer": "%", "minimum": "min", "maximum": "max",
    "where": "where",
}  # fmt: skip
_WHOLE = ("tl.int", "tl.uint")


class Root(Struct, frozen=True):
    """A variable that takes every value from 0 to `size` - 1."""

    name: str
    size: int


class Operation(Struct, frozen=True, eq=False):
    """An operation on whole numbers; `&`, `|`, `~` and comparisons give 0 or 1."""

    kind: str
    parts: tuple[Index, ...]
    depth: int


Index = int | Root | Operation

Known = Mapping[str, Index | None]
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


def operation(kind: str, *parts: Index | None) -> Index | None:
    """The operation, computed if all its parts are numbers; None where a part is not known."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if any(isinstance(part, int) and abs(part) >= _LARGEST for part in known):
        return None
    if all(isinstance(part, int) for part in known):
        value = _computed(kind, [np.asarray(part, np.int64) for part in known])
        return None if value is None else int(value)
    depth = 1 + max(part.depth if isinstance(part, Operation) else 0 for part in known)
    return Operation(kind, tuple(known), depth) if depth <= _DEEPEST else None


def added(a: Form, b: Form, times: int = 1) -> Form:
    """`a + times * b`."""
    terms = dict(a.terms)
    for digit, factor in b.terms.items():
        terms[digit] = terms.get(digit, 0) + factor * times
    kept = {digit: factor for digit, factor in terms.items() if factor}
    return Form(a.constant + b.constant * times, kept)


@lru_cache(maxsize=4096)  # one node is often part of many
def linear(index: Index) -> Form | None:
    """The index as a sum of digits, or None if it is not one."""
    if isinstance(index, int):
        return Form(index)
    if isinstance(index, Root):
        return Form(0, {(index, 1, index.size): 1} if index.size > 1 else {})
    if index.kind not in ("+", "-", "*", "//", "%"):
        return None
    left, right = (linear(part) for part in index.parts)
    if left is None or right is None:
        return None
    if index.kind in ("+", "-"):
        return added(left, right, 1 if index.kind == "+" else -1)
    if index.kind == "*":
        left, right = (left, right) if left.terms else (right, left)
        return None if right.terms else added(Form(0), left, right.constant)
    return None if right.terms else _divided(left, right.constant, index.kind)


def _divided(form: Form, by: int, kind: str) -> Form | None:
    """Quotient or remainder: what `by` divides, over a rest that stays below it."""
    if by <= 0 or form.low < 0:
        return None
    upper, lower = Form(form.constant // by), Form(form.constant % by)
    for digit, factor in form.terms.items():
        root, place, size = digit
        cut = by // factor if factor > 0 and by % factor == 0 else 0
        if factor % by == 0:
            upper = added(upper, Form(0, {digit: factor // by}))
        elif 1 < cut < size and size % cut == 0:
            upper = added(upper, Form(0, {(root, place * cut, size // cut): 1}))
            lower = added(lower, Form(0, {(root, place, cut): factor}))
        else:
            lower = added(lower, Form(0, {digit: factor}))
    if not 0 <= lower.low <= lower.high < by:
        return None
    return upper if kind == "//" else lower


def roots(index: Index) -> set[Root]:
    """The variables of an index."""
    found: set[Root] = set()
    seen: set[int] = set()
    left = [index]
    while left:
        part = left.pop()
        if isinstance(part, Root):
            found.add(part)
        elif isinstance(part, Operation) and id(part) not in seen:
            seen.add(id(part))
            left += part.parts
    return found


def values(indices: tuple[Index, ...]) -> list[NDArray[np.int64]] | None:
    """Every index at every value of the variables; None if these are too many or not known."""
    variables = sorted(set().union(*map(roots, indices)), key=lambda root: root.name)
    if prod(root.size for root in variables) > LISTED:
        return None
    grids = np.ix_(*(np.arange(root.size) for root in variables))
    known: dict[Any, NDArray[np.int64] | None] = dict(zip(variables, grids, strict=True))
    found = [_evaluated(index, known) for index in indices]
    kept = [each for each in found if each is not None]
    return list(np.broadcast_arrays(*kept)) if len(kept) == len(found) else None


def _evaluated(index: Index, known: dict[Any, NDArray[np.int64] | None]) -> Any:
    if isinstance(index, int):
        return np.asarray(index, np.int64)
    if index not in known:  # operations are told apart by identity
        assert isinstance(index, Operation)
        parts = [_evaluated(part, known) for part in index.parts]
        known[index] = None if any(p is None for p in parts) else _computed(index.kind, parts)
    return known[index]


def _computed(kind: str, parts: list[NDArray[np.int64]]) -> NDArray[np.int64] | None:
    if kind in ("//", "%") and ((parts[1] <= 0).any() or (parts[0] < 0).any()):
        return None  # C and Python differ there
    match kind, parts:
        case "where", [a, b, c]:
            return np.asarray(np.where(a != 0, b, c), np.int64)
        case "~", [a]:
            return np.asarray(a == 0, np.int64)
        case _, [a, b] if kind in _BINARY:
            return np.asarray(_BINARY[kind](a, b), np.int64)
    return None


_BINARY: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.remainder,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal, "&": np.logical_and, "|": np.logical_or,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip


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


def index_of(node: ast.expr, known: Known) -> Index | None:
    """The index that an expression is; None where data or a float decides it."""
    match node:
        case ast.Constant(value=int(whole)):
            return int(whole)
        case ast.Name(id=name):
            return known.get(name)
        case ast.BinOp(left=left, op=kind, right=right):
            return _operation(type(kind), known, left, right)
        case ast.Compare(left=left, ops=[kind], comparators=[right]):
            return _operation(type(kind), known, left, right)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return operation("-", 0, index_of(inner, known))
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=inner):
            return operation("~", index_of(inner, known))
        case ast.Subscript(value=inner):  # `[:, None]`
            return index_of(inner, known)
        case ast.Call():
            return _call(node, known)
    return None


def _operation(kind: type[ast.AST], known: Known, *parts: ast.expr) -> Index | None:
    return operation(_OPERATORS.get(kind, ""), *(index_of(part, known) for part in parts))


def _call(node: ast.Call, known: Known) -> Index | None:
    name = dotted(node.func)
    helper = name.rpartition(".")[2]
    if name == "tl.full":
        return index_of(node.args[1], known) if len(node.args) > 1 else None
    if name == "tl.broadcast_to":
        return index_of(node.args[0], known) if node.args else None
    if helper in _HELPERS and name.startswith(("tl.", "triton_helpers.", "c10.")):
        return operation(_HELPERS[helper], *(index_of(part, known) for part in node.args))
    if isinstance(node.func, ast.Attribute):
        whole = bool(node.args) and dotted(node.args[0]).startswith(_WHOLE)
        if node.func.attr == "broadcast_to" or (node.func.attr == "to" and whole):
            return index_of(node.func.value, known)
    return None
