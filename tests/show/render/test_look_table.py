"""Plain tables: what gives way when a table is too wide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.show.render.terminal import shorten, table

WORDS = st.text("abcdefgh ", max_size=120)


def test_narrow_tables_are_left_alone() -> None:
    assert table(["name", "n"], [["a", "10"], ["bcd", "2"]]) == "  name   n\n  a     10\n  bcd    2"


def test_the_first_column_gives_way_least() -> None:
    head, row = ["kernel", "op", "time"], ["k" * 60, "o" * 60, "1.00 us"]
    line = table(head, [row], left=(0, 1)).split("\n")[1]
    assert len(line) == 100
    kernel, op = line.split()[:2]
    assert len(kernel) > len(op) > 20


@pytest.mark.parametrize(
    "names",
    [
        [
            "mlp_compiled_64x128x768x3072_backward_bf16.json.gz",
            "mlp_compiled_64x128x768x3072_bf16.json.gz",
            "short",
        ],
        ["a" * 40 + "first" + "z" * 40, "a" * 40 + "second" + "z" * 40],
    ],
)
def test_names_that_differ_stay_different(names: list[str]) -> None:
    lines = table(["trace", "n"], [[name, "1"] for name in names], width=40).split("\n")[1:]
    assert max(map(len, lines)) <= 40
    assert len(set(lines)) == len(names)


@given(st.lists(st.tuples(WORDS, WORDS, st.integers(0, 10**9)), max_size=6))
def test_every_line_fits(rows: list[tuple[str, str, int]]) -> None:
    text = table(
        ["first", "second", "number"],
        [[one, two, str(number)] for one, two, number in rows],
        left=(0, 1),
    )
    assert max(map(len, text.split("\n"))) <= 100


@given(st.text(max_size=80), st.integers(2, 60))
def test_a_shortened_text_keeps_both_ends(text: str, size: int) -> None:
    found = shorten(text, size)
    assert len(found) <= max(size, 3)
    if len(text) > size >= 3:
        assert found[0] == text[0]
        assert found[-1] == text[-1]
