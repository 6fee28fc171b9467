"""Counting the elements that index expressions reach, against listing them all."""

from __future__ import annotations

import random

import numpy as np
import pytest

from foretrace.model.compiled import indices
from foretrace.model.compiled import indices as elements
from foretrace.model.compiled.indices import (
    Index,
    Reached,
    Root,
    different,
    linear,
    operation,
    values,
)


def _op(kind: str, *parts: Index) -> Index:
    found = operation(kind, *parts)
    assert found is not None
    return found


def _digit(root: Root, place: int, size: int) -> Index:
    return _op("%", _op("//", root, place), size)


X = Root("x", 25_165_824)
ROW, COLUMN = Root("x", 2048), Root("r0_", 32000)


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        (X, 25_165_824),
        (7, 1),
        (_digit(X, 1, 64), 64),
        (_op("+", _op("*", 32000, ROW), COLUMN), 65_536_000),
        (_op("+", _op("*", 2, ROW), COLUMN), 36_094),  # windows that overlap
        (_op("+", _op("*", 4, ROW), _digit(COLUMN, 1, 2)), 4096),  # every other pair
        (_op("+", _op("//", X, 512), _op("*", 513, _digit(X, 1, 512))), 311_295),
    ],
)
def test_sums_of_digits(index: Index, wanted: int) -> None:
    assert different([Reached(index)]) == wanted


def test_a_mask_on_variables_is_exact() -> None:
    padded = Root("x", 4 * 513)
    index = _op("+", _op("*", 512, _op("//", padded, 513)), _op("%", padded, 513))
    assert different([Reached(index, _op("<", _op("%", padded, 513), 512))]) == 2048
    assert different([Reached(index, 0)]) == 0


def test_halves_of_a_row_are_counted_once() -> None:
    x = Root("x", 1 << 24)
    column, row = _digit(x, 1, 1024), _op("//", x, 1024)
    first = _op("+", column, _op("*", 2048, row))
    second = _op("+", 1024, first)
    assert different([Reached(first), Reached(second), Reached(first)]) == 1 << 25


def test_a_rotated_half_lies_in_the_whole() -> None:
    """Rotary embeddings load a row, and each half of it again under a mask."""
    x = Root("x", 1_572_864)
    low, high = _digit(x, 1, 64), _op("*", 64, _op("//", x, 64))
    left = Reached(_op("+", _op("+", 32, high), low), _op("<", low, 32))
    right = Reached(_op("+", high, _op("+", -32, low)), _op(">=", low, 32))
    assert different([Reached(x), left, right]) == 1_572_864
    assert different([left, right]) == 1_572_864
    assert different([left]) == 786_432


def test_what_is_too_large_to_list_is_unknown() -> None:
    x = Root("x", 1 << 30)
    odd = _op("%", _op("*", x, x), 7)
    assert different([Reached(odd)]) is None
    assert linear(odd) is None


def _random(draw: random.Random) -> Index:
    roots = [Root("x", draw.choice([12, 24, 64])), Root("r0_", draw.choice([1, 6, 8]))]
    index: Index = draw.randrange(5)
    for _ in range(draw.randrange(1, 4)):
        root = draw.choice(roots)
        piece: Index = root
        if draw.random() < 0.7:
            piece = _op("//", piece, draw.choice([1, 2, 3, 4, 6]))
        if draw.random() < 0.7:
            piece = _op("%", piece, draw.choice([2, 3, 4, 5, 8]))
        index = _op("+", index, _op("*", piece, draw.choice([0, 1, 1, 2, 3, 8, 24, 100])))
    return index


def _mask(draw: random.Random) -> Index:
    if draw.random() < 0.5:
        return 1
    kind = draw.choice(["<", "<=", ">", ">="])
    return _op("&", _op(kind, _random(draw), draw.randrange(30)), 1)


def _brute(reached: list[Reached]) -> int:
    found: set[int] = set()
    for each in reached:
        listed = values((each.index, each.mask))
        assert listed is not None
        found |= set(listed[0][listed[1] != 0].tolist())
    return len(found)


def test_against_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing listed the answer is the true one or None; with listing it is always true."""
    draw, closed = random.Random(12), 0
    for _ in range(1500):
        reached = [Reached(_random(draw), _mask(draw)) for _ in range(draw.choice([1, 1, 2, 3]))]
        truth = _brute(reached)
        assert different(reached) == truth
        with monkeypatch.context() as patched:
            patched.setattr(elements, "LISTED", 0)
            patched.setattr(indices, "LISTED", 0)
            closed += (counted := different(reached)) is not None
            assert counted in (None, truth)
    assert closed > 200


def test_forms_equal_their_expressions() -> None:
    draw = random.Random(3)
    for _ in range(500):
        index = _random(draw)
        form, listed = linear(index), values((index,))
        assert listed is not None
        if form is not None:
            assert form.low <= listed[0].min()
            assert listed[0].max() <= form.high
            again = values((elements._expression(form),)) if not _shared(form) else listed
            assert again is not None
            assert np.array_equal(np.unique(again[0]), np.unique(listed[0]))


def _shared(form: indices.Form) -> bool:
    """Whether digits of one variable overlap: only `different` cuts these."""
    names = [digit[0] for digit in form.terms]
    return len(set(names)) < len(names)
