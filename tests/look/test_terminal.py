"""Text that is safe for a terminal, and tables that fit it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.base.terminal import csv_cell, layout, markdown, plain, shorten
from sweep import looped

ANY_TEXT = st.text(alphabet=st.characters(codec=None, categories=None), max_size=60)
INVISIBLE = [0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x2028, 0x2029]
BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]


def test_ordinary_text_is_left_alone() -> None:
    for text in ("nvjet_sm90_tst_256x128", "void f<int>(a, b)", "größe 中文 🚀", ""):
        assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\rc\td", "a\\nb\\rc\\td"),
        ("a\x00b\x7fc\x9bd", "a\\x00b\\x7fc\\x9bd"),
        ("abc\u202edef", "abc\\u202edef"),
        ("a\u200bb\ufeffc", "a\\u200bb\\ufeffc"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("a\ud800b", "a\\ud800b"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("a\u3164b", "a\\u3164b"),
    ],
)
def test_what_a_terminal_would_act_on_is_spelt_out(text: str, shown: str) -> None:
    assert plain(text) == shown


@looped("code", [*range(0x20), *range(0x7F, 0xA0), *BIDI, *INVISIBLE])
def test_every_control_is_escaped(code: int) -> None:
    assert chr(code) not in plain(f"a{chr(code)}b")


@given(ANY_TEXT)
def test_plain_text_holds_no_control_and_can_be_written(text: str) -> None:
    shown = plain(text)
    shown.encode("utf-8")
    assert not {unicodedata.category(mark) for mark in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert plain(shown) == shown


def test_markdown_escapes_what_would_be_markup() -> None:
    assert markdown("a|b`c`[d](e)<f>*g*_h_") == "a\\|b\\`c\\`\\[d\\]\\(e\\)\\<f\\>\\*g\\*\\_h\\_"
    assert markdown("a\nb") == "a\\\\nb"
    assert markdown("https://x.y www.x.y @me #1") == "https:\\//x.y www\\.x.y \\@me \\#1"


@given(ANY_TEXT)
def test_a_markdown_cell_stays_one_cell(text: str) -> None:
    shown = markdown(text)
    assert "\n" not in shown
    unescaped = shown.replace("\\\\", "")
    for mark in "|`[]()<>*_":
        assert unescaped.count(mark) == unescaped.count(f"\\{mark}")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "＝", "＠"])
def test_a_formula_gets_an_apostrophe(start: str) -> None:
    assert csv_cell(f"{start}1+1") == f"'{plain(start)}1+1"


@given(ANY_TEXT)
def test_a_cell_of_a_spreadsheet_acts_on_no_terminal(text: str) -> None:
    assert plain(csv_cell(text)) == csv_cell(text)


def test_other_cells_are_left_alone() -> None:
    assert csv_cell("void f(int)") == "void f(int)"
    assert csv_cell("") == ""


WORDS = st.text("abcdefgh ", max_size=120)


def test_narrow_tables_are_left_alone() -> None:
    assert (
        layout(["name", "n"], [["a", "10"], ["bcd", "2"]]) == "  name   n\n  a     10\n  bcd    2"
    )


def test_the_first_column_gives_way_least() -> None:
    head, row = ["kernel", "op", "time"], ["k" * 60, "o" * 60, "1.00 us"]
    line = layout(head, [row], left=(0, 1)).split("\n")[1]
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
    lines = layout(["trace", "n"], [[name, "1"] for name in names], width=40).split("\n")[1:]
    assert max(map(len, lines)) <= 40
    assert len(set(lines)) == len(names)


@given(st.lists(st.tuples(WORDS, WORDS, st.integers(0, 10**9)), max_size=6))
def test_every_line_fits(rows: list[tuple[str, str, int]]) -> None:
    text = layout(
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
