"""Counting the elements that index expressions reach, against listing them all."""

from __future__ import annotations

import ast
import random
from itertools import product

import pytest

from foretrace.model.compiled import indices
from foretrace.model.compiled.indices import (
    Form,
    Reached,
    different,
    divided,
    index_of,
    mask_of,
    variable,
)

SIZES = {"x": 25_165_824, "row": 2048, "column": 32000, "half": 1_572_864, "padded": 2052, "w": 24}
KNOWN = {name: variable(name, size) for name, size in SIZES.items()}


def _reached(index: str, mask: str = "1", known: dict[str, Form] | None = None) -> Reached:
    names = known or KNOWN
    form = index_of(ast.parse(index, mode="eval").body, names)
    holds = mask_of(ast.parse(mask, mode="eval").body, names)
    assert form is not None
    assert holds is not None
    return Reached(form, holds.tests)


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        ("x", 25_165_824),
        ("7", 1),
        ("x % 64", 64),
        ("32000 * row + column", 65_536_000),
        ("2 * row + w", 4118),  # windows that overlap
        ("4 * row + column % 2", 4096),  # every other pair
        ("padded // 7 + padded % 7", 299),  # digits that do not divide the variable
        ("x // 512 + 513 * (x % 512)", None),  # too many to list
    ],
)
def test_sums_of_digits(index: str, wanted: int | None) -> None:
    assert different([_reached(index)]) == wanted


def test_a_mask_on_variables_is_exact() -> None:
    index = "512 * (padded // 513) + padded % 513"
    assert different([_reached(index, "padded % 513 < 512")]) == 2048
    assert different([_reached(index, "(padded % 513 < 512) & (padded >= 513)")]) == 1536
    assert different([_reached(index, "0")]) == 0


def test_halves_of_a_row_are_counted_once() -> None:
    known = {"x": variable("x", 1 << 24)}
    first = _reached("x % 1024 + 2048 * (x // 1024)", known=known)
    second = _reached("1024 + x % 1024 + 2048 * (x // 1024)", known=known)
    assert different([first, second, first]) == 1 << 25


def test_a_rotated_half_lies_in_the_whole() -> None:
    """Rotary embeddings load a row, and each half of it again under a mask."""
    left = _reached("32 + 64 * (half // 64) + half % 64", "half % 64 < 32")
    right = _reached("64 * (half // 64) + (-32 + half % 64)", "half % 64 >= 32")
    assert different([_reached("half"), left, right]) == 1_572_864
    assert different([left, right]) == 1_572_864
    assert different([left]) == 786_432


@pytest.mark.parametrize(
    "text",
    ["x * x % 7", "x / 2", "y", "x | 1", "x // row", "x == 2", f"x * {1 << 40}", "x[0] + f(x)"],
)
def test_other_expressions_are_no_index(text: str) -> None:
    assert index_of(ast.parse(text, mode="eval").body, KNOWN) is None


def _random(draw: random.Random) -> Form:
    roots = [("x", draw.choice([12, 24, 30])), ("r0_", draw.choice([1, 6, 8]))]
    index = Form(draw.randrange(5))
    for _ in range(draw.randrange(1, 4)):
        piece: Form | None = variable(*draw.choice(roots))
        for place, odds in ((0, 0.7), (1, 0.7)):
            by = draw.choice([1, 2, 3, 4, 5, 6, 8])
            both = divided(piece, by) if piece and draw.random() < odds else None
            piece = both[place] if both else piece
        index = indices.added(index, piece or Form(0), draw.choice([0, 1, 1, 2, 3, 8, 24, 100]))
    return index


def _tests(draw: random.Random) -> tuple[Form, ...]:
    if draw.random() < 0.5:
        return ()
    return (indices.added(_random(draw), Form(draw.randrange(30)), -1),)


def _brute(reached: list[Reached]) -> int:
    """Every value of every variable, one by one."""
    found: set[int] = set()
    for each in reached:
        forms = (each.index, *each.tests)
        roots = list({digit[0] for form in forms for digit in form.terms})
        for values in product(*(range(root.size) for root in roots)):
            at = dict(zip(roots, values, strict=True))
            index, *tests = (
                f.constant + sum(c * (at[r] // p % s) for (r, p, s), c in f.terms.items())
                for f in forms
            )
            found |= {index} if all(test < 0 for test in tests) else set()
    return len(found)


def test_against_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing listed the answer is the true one or None; with listing it is always true."""
    draw, closed = random.Random(12), 0
    for _ in range(400):
        reached = [Reached(_random(draw), _tests(draw)) for _ in range(draw.choice([1, 1, 2, 3]))]
        truth = _brute(reached)
        assert different(reached) == truth
        with monkeypatch.context() as patched:
            patched.setattr(indices, "LISTED", 1)
            counted = different(reached)
        closed += counted is not None
        assert counted in (None, truth)
    assert closed > 60
