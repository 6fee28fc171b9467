"""The language: what is written is what is read, printed and read again; units; three values; slips."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from check.conftest import recorded
from check.slips import SLIPS
from corpus.builder import TraceBuilder
from foretrace.check import check
from foretrace.check.jobs import TriesJudge
from foretrace.check.language import (
    UNITS,
    Listed,
    Node,
    Pair,
    Prediction,
    Quantity,
    Scope,
    Selector,
    Signed,
    Words,
    WrongText,
    glob,
    parse,
)
from foretrace.check.marking import mark, read
from foretrace.check.quantities import QUANTITIES, reads
from foretrace.trace.trace import Trace
from opened_traces import open_made
from sweep import examples, looped

COMPARES = ["==", "!=", "<=", ">=", "<", ">", "~"]
SELECTORS = ["gemm", "copy HtoD", "aten::mm", '"model.py:41"', '"a, (b)"', "stream 7", "*flash*"]
SCOPES = [
    Scope(),
    Scope("step", "3"),
    Scope("region", "mlp_fwd"),
    Scope("region", "a region, with: all"),
    Scope("region", "Torch-Compiled*"),
    Scope("op", "aten::linear"),
    Scope("module", "LlamaMLP"),
    Scope("pass", "backward"),
    Scope("rank", "3"),
]


# ---- parse, print, parse

numbers = st.one_of(
    st.integers(0, 10**7).map(str),
    st.floats(0, 1e6, allow_nan=False).map(lambda value: f"{value:.3f}"),
    st.tuples(st.integers(0, 999), st.sampled_from(sorted(UNITS))).map(lambda p: f"{p[0]} {p[1]}"),
    st.sampled_from(["1,000", "1_000", "1e3", "2.5e-3 ms", "40%", "0.9", "256"]),
).map(lambda text: parse(text, {}).node)
words = st.sampled_from(["bf16", "host", "256x128", "model.py:41", "two words"]).map(
    lambda text: Words(0, text)
)


def _quantity(name: str, of: tuple[Node, ...], side: str, total: bool) -> Quantity:
    return Quantity(0, name, of, side, total)


@st.composite
def quantities(draw: st.DrawFn) -> Quantity:
    name = draw(st.sampled_from(sorted(QUANTITIES)))
    known = QUANTITIES[name].reads
    if known.expression:
        of: tuple[Node, ...] = (Quantity(0, "time", (Selector(0, "gemm"),)),)
    else:
        count = draw(st.integers(known.least, known.most))
        of = tuple(Selector(0, draw(st.sampled_from(SELECTORS))) for _ in range(count))
    side, total = draw(st.sampled_from(["", "a", "b"])), draw(st.booleans())
    if name == "step.time" and not side and draw(st.booleans()):
        return Quantity(0, "step", (), "", total, "compile")
    return Quantity(0, name, of, side, total)


def _arithmetic(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    pair = st.tuples(st.sampled_from("+-*/"), inner, inner).map(lambda p: Pair(0, *p))
    return pair | inner.map(lambda node: Signed(0, "-", node))


def _joined(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    pair = st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(lambda p: Pair(0, *p))
    return pair | inner.map(lambda node: Signed(0, "not", node))


values = st.recursive(st.one_of(numbers, quantities()), _arithmetic, max_leaves=8)
claims = st.one_of(
    st.tuples(st.sampled_from(COMPARES), values, values | words).map(lambda p: Pair(0, *p)),
    st.tuples(values, values, numbers).map(lambda p: Pair(0, "~", *p)),
    st.tuples(values, st.lists(words | numbers, min_size=1, max_size=3)).map(
        lambda p: Pair(0, "in", p[0], Listed(0, tuple(p[1])))
    ),
    quantities(),
)
trees = st.recursive(claims, _joined, max_leaves=6)


@settings(max_examples=examples(1500), suppress_health_check=list(HealthCheck))
@given(scope=st.sampled_from(SCOPES), node=trees)
def test_what_is_printed_is_read_as_the_same_tree(scope: Scope, node: Node) -> None:
    known = reads() | {"step": QUANTITIES["step.time"].reads}
    written = Prediction(scope, node, "")
    again = parse(str(written), known)
    assert again == written
    assert str(again) == str(written)


@settings(max_examples=examples(500), suppress_health_check=list(HealthCheck))
@given(
    st.text(max_size=80)
    | st.lists(
        st.sampled_from(
            [
                "kernels",
                "time(gemm)",
                "==",
                "<",
                "5",
                "ms",
                "(",
                ")",
                "and",
                "not",
                "in",
                ":",
                '"',
                ",",
                "±",
                "~",
                "total.",
                "a.",
                "after(",
                "mlp_fwd",
                "%",
                "-",
                "/",
                "\x00",
                "é",
            ]
        ),
        max_size=14,
    ).map(" ".join)
)
def test_any_text_is_read_or_refused_at_a_place(text: str) -> None:
    wrong = _refused(text)
    if wrong is not None:
        assert 0 <= wrong.at <= len(text)
        shown, caret = wrong.marked
        assert len(caret) - 1 <= len(shown)
        assert wrong.problem


def _refused(text: str) -> WrongText | None:
    try:
        read(text)
    except WrongText as wrong:
        return wrong
    return None


# ---- hostile

HOSTILE = {
    "(" * 1000: "too many parentheses",
    "(" * 49 + "1" + ")" * 49 + " == 1": "",
    "not " * 400 + "kernels == 1": "too many parentheses",
    "- " * 900 + "1 == 1": "too many parentheses",
    "1" + "+1" * 990 + " == 5": "at most 100 signs",
    "kernels == 1" + " and kernels == 1" * 110: "at most 100 signs",
    "1" + "+1" * 95 + " == 96": "",
    "a." * 900 + "kernels == 1": "no quantity",
    "x" * 2000: "no quantity",
    "x" * 2001: "at most 2,000 characters",
    "kernels < " + "9" * 400: "this number is too large",
    "kernels == 1e999": "this number is too large",
    "kernels >= 1e-99999": "",
    "kernels < 1" + "0" * 300: "",
    "count(" + "(" * 500 + ")" * 500 + ") == 0": "",
    "count(" + "*a" * 900 + ") == 0": "",
    'count("' + "*a" * 30 + 'b") == 0': "",
    "launches(" + "a," * 900 + "a) == 1": "expected 0 to 8",
    "in " + "a " * 900 + ": kernels == 1": "names no place",
    "in step " + "9" * 60 + ": kernels == 5": "no step 9",
    'count("") == 1': "an empty name",
    'count("  ") == 1': "no kernels are called",
    "kernels == \x00": "cannot stand here",
    '"': "a quote without its end",
    "": "ends too early",
    " \n ": "ends too early",
}


@looped(("text", "problem"), HOSTILE.items())
def test_nothing_takes_long_or_falls(text: str, problem: str) -> None:
    [verdict] = check(recorded("mlp_eager"), text)
    assert (verdict.verdict == "error") == bool(problem), verdict
    assert problem in verdict.why
    assert len(verdict.why) < 2_500


@looped(
    ("pattern", "name", "matches"),
    [
        ("*", "", True),
        ("a*b*c", "aXbXc", True),
        ("a*b*c", "aXcXb", False),
        ("*ab*ab", "abab", True),
        ("*ab*ab", "aab", False),
        ("ab*ba", "aba", False),
        ("mm", "aten::mm", False),
        ("*mm", "aten::mm", True),
        ("*a" * 500 + "b", "a" * 5000, False),
    ],
)
def test_names_with_stars(pattern: str, name: str, matches: bool) -> None:
    assert glob(pattern, name) is matches


# ---- slips


@looped(("text", "place", "word"), SLIPS)
def test_a_slip_is_marked_at_its_place_with_the_right_word(
    text: str, place: str, word: str
) -> None:
    """`place` is what the caret stands under: the rest of the text from there begins with it."""
    [verdict] = check(recorded("mlp_eager"), text, recorded("mlp_compiled"))
    assert verdict.verdict == "error", verdict
    assert word in verdict.why
    if place:
        shown, caret = verdict.slice
        at = len(caret) - 1
        assert shown[at:].startswith(place) if place != "END" else at == len(shown), caret


def test_there_are_a_hundred_slips() -> None:
    assert len(SLIPS) >= 100
    assert len({text for text, _, _ in SLIPS}) == len(SLIPS)


@looped(
    ("text", "nearest"),
    [
        ("everything runs in bf16", "dtype"),
        ("the step takes less than 8 ms", "step.time"),
        ("step 2 is slower than the others", "step.time"),
        ("there are five kernels", "kernels"),
        ("gelu and mul are fused", "fused"),
        ("the gpu is idle most of the time", "gpu.idle"),
    ],
)
def test_a_sentence_gets_expressions_and_no_verdict(text: str, nearest: str) -> None:
    [verdict] = check(recorded("mlp_eager"), text)
    assert verdict.verdict == "error"
    assert "an expression, not a sentence" in verdict.why
    assert f"`{nearest}" in verdict.why


# ---- units, arithmetic and three values


def _trace(folder: Path) -> Trace:
    """Two steps of 10 us: a copy of 1,000 bytes in 1 us, and kernels of 2 and 4 us."""
    made = TraceBuilder()
    for step in range(2):
        at = step * 10_000
        made.step(step, at, 10_000).op("aten::copy_", at + 100, 500).launch(
            at + 200, 100, name="cudaMemcpyAsync"
        ).memcpy(at + 1_000, 1_000, nbytes=1_000).op("aten::mm", at + 2_000, 500)
        made.launch(at + 2_100, 100).kernel("first", at + 3_000, 2_000)
        made.launch(at + 2_300, 100).kernel("second", at + 5_000, 4_000)
    return open_made(made, folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return _trace(tmp_path_factory.mktemp("made"))


UNIT_CASES = """
time(first) == 2 us                          hit
time(first) == 2000 ns                       hit
time(first) == 0.002 ms                      hit
time(first) == 2.1 us                        miss
time(first) + time(second) == 6 us           hit
time(second) - time(first) == 2 us           hit
2 * time(first) == time(second)              hit
time(first) * 2 == time(second)              hit
time(second) / 2 == time(first)              hit
time(first) / time(second) == 0.5            hit
time(first) / time(second) == 50%            hit
time(second) / time(first) == 2x             hit
time(second) / time(first) > 2               miss
bytes(memcpy) == 1 kB                        hit
bytes(memcpy) == 1000 B                      hit
bytes(memcpy) > 1 KiB                        miss
bytes(memcpy) / time(memcpy) == 1 GB/s       hit
bytes(memcpy) / time(memcpy) == 1000 MB/s    hit
bytes(memcpy) / kernels == 500 B             hit
-kernels == -2                               hit
kernels + memcpys == 3                       hit
kernels - memcpys * 2 == 0                   hit
(kernels - memcpys) * 2 == 2                 hit
kernels / memcpys == 2                       hit
2 < kernels + 1                              hit
kernels in (1, 2)                            hit
kernels in (3, 4)                            miss
kernels ~ 2.1                                hit
kernels ~ 3                                  miss
kernels ~ 3 (± 40%)                          hit
kernels ~ 3 ± 1                              hit
time(first) ~ 2.2 us (+- 0.1 us)             miss
time(first) ~ 2.2 us (+- 0.2 us)             hit
memcpys * 2 ~ kernels (± 10%)                hit
kernels / memsets == 1                       unknown
total.kernels == 4                           hit
total.kernels == 2 * kernels                 hit
in step 1: kernels == 2                      hit
share(first) == 29%                          hit
share(first) == 28.6%                        hit
share(first) == 28.5%                        miss
max(time(*)) == 4 us                         hit
min(time(*)) == 2 us                         hit
mean(time(*)) == 3 us                        hit
median(time(*)) == 3 us                      hit
spread(time(*)) == 67%                       hit
each(time(*)) >= 2 us                        hit
each(time(*)) > 2 us                         miss
some(each(time(*))) > 2 us                   hit
fused(first, second) or kernels == 2         hit
mfu > 1% and kernels == 3                    miss
mfu > 1% and kernels == 2                    unknown
mfu > 1% or kernels == 2                     hit
mfu > 1% or kernels == 3                     unknown
not mfu > 1%                                 unknown
not kernels == 3                             hit
not (kernels == 3 or kernels == 2)           miss
kernels == 3 or kernels == 2 and memcpys == 1    hit
(kernels == 2 or kernels == 3) and memcpys == 2  miss
"""


def test_units_and_three_values(made: Trace) -> None:
    rows = [line.rsplit(maxsplit=1) for line in UNIT_CASES.strip().splitlines()]
    verdicts = check(made, [text for text, _ in rows])
    wrong = [
        f"{found.verdict} instead of {verdict}: {found}"
        for found, (_, verdict) in zip(verdicts, rows, strict=True)
        if found.verdict != verdict
    ]
    assert not wrong, "\n".join(wrong)


def test_not_is_its_own_inverse_and_de_morgan_holds(made: Trace) -> None:
    claims = {"kernels == 2": "hit", "kernels == 3": "miss", "mfu > 1%": "unknown"}
    inverse = {"hit": "miss", "miss": "hit", "unknown": "unknown"}
    for one, right in claims.items():
        assert _verdict(made, one) == right
        assert _verdict(made, f"not ({one})") == inverse[right]
        assert _verdict(made, f"not not ({one})") == right
        for other in claims:
            neither, both = f"not ({one} or {other})", f"not ({one} and {other})"
            assert _verdict(made, neither) == _verdict(made, f"not {one} and not {other}")
            assert _verdict(made, both) == _verdict(made, f"not {one} or not {other}")
            assert _verdict(made, f"{one} and {other}") == _verdict(made, f"{other} and {one}")
            assert _verdict(made, f"{one} or {other}") == _verdict(made, f"{other} or {one}")


def _verdict(trace: Trace, text: str) -> str:
    return check(trace, text)[0].verdict


MIRRORED = """
a.kernels == b.kernels; a.kernels > b.kernels; kernels == a.kernels; a.kernels - b.kernels == 1
b.time(gemm) < 0.95 * a.time(gemm); a.gpu.time / b.gpu.time > 1.1; a.total.kernels == 15
in mlp_fwd: b.kernels == 4; in mlp_fwd: a.time(gemm) > b.time(gemm); a.waits == b.waits
b.step.time < 0.9 * a.step.time; in step 3: a.kernels == 5 and b.kernels == 4; a.share(gemm) > 50%
a.dtype(gemm) == b.dtype(gemm); same(gemm); same(kernel); a.names(gemm) == b.names(gemm)
"""
PREDICTIONS = [text.strip() for line in MIRRORED.strip().splitlines() for text in line.split(";")]


@looped("text", PREDICTIONS)
def test_a_and_b_are_mirrored(text: str) -> None:
    """With both traces and both letters exchanged, the verdict is the same."""
    letters = {"a": "b", "b": "a"}
    parts = text.replace("kernels == a.kernels", "b.kernels == a.kernels").split(".")
    swapped = ".".join(
        part[:-1] + letters[part[-1]]
        if at < len(parts) - 1 and part[-1] in "ab" and (len(part) == 1 or not part[-2].isalpha())
        else part
        for at, part in enumerate(parts)
    )
    one, other = recorded("mlp_eager"), recorded("mlp_compiled")
    [first], [second] = check(other, text, one), check(one, swapped, other)
    assert first.verdict == second.verdict != "error", (first, second)
    assert first.verdict in ("hit", "miss")


def test_without_another_recording_a_is_unknown() -> None:
    for text in ("kernels < a.kernels", "same(gemm)"):
        [verdict] = check(recorded("mlp_eager"), text)
        assert verdict.verdict == "unknown"
        assert "--against" in verdict.why


def test_results_of_tries_are_judged_by_the_same_language() -> None:
    judge = TriesJudge({"best": 90.0, "lost": 0.0}, {"best": 100.0, "lost": None})
    verdicts = {
        "b.best < 0.95 * a.best": "hit",
        "b.best < 0.85 * a.best": "miss",
        "lost == 0": "hit",
        "lost == a.lost": "unknown",
    }
    for text, verdict in verdicts.items():
        assert mark(text, judge, judge.known).verdict == verdict, text
