"""Index expressions of generated code: whole numbers over variables, and as sums of digits.

A variable runs from 0 to its size. Inductor cuts it into digits, `(x // place) % size`. An index is
nearly always a constant plus digits times coefficients.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

LISTED = 1 << 22  # values that are listed at most: 32 MiB for each step, some 0.1 s
_LARGEST = 1 << 40  # of a number in an index: times what is listed it still fits 64 bits
_DEEPEST = 60  # steps from an index to its variables; generated code has fewer than 10


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
