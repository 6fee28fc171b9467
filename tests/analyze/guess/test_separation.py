"""Why two ops are not one kernel, on four compiles as recorded on an H200."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import foretrace as ft
from analyze.guess.conftest import recorded
from foretrace.analyze.guess import GuessError, check, parse
from foretrace.analyze.guess.baseline import holding
from foretrace.analyze.guess.kinds.compiler import WORDS
from foretrace.analyze.guess.questions import questions
from foretrace.analyze.why.not_fused import REASONS
from foretrace.model.trace import Trace

COMPILED = Path(__file__).parents[2] / "data" / "compile"


@cache
def compiled(name: str) -> Trace:
    return ft.open(COMPILED / name / "trace.json.gz", cache=False)


@pytest.mark.parametrize(
    ("name", "text", "verdict", "measured"),
    [
        ("mlp", "matmul and gelu are not fused because extern kernel", "hit", "library kernel"),
        ("mlp", "mul is not fused with linear because extern kernel", "hit", "library kernel"),
        ("mlp", "gelu and mul are not fused because extern kernel", "miss", "one kernel: triton"),
        ("mlp", "gelu and sort are not fused because extern kernel", "miss", "no compiled kernel"),
        ("mlp", "matmul and gelu are not fused because different sizes", "miss", "library kernel"),
        ("unfusable", "softmax and sort are not fused because of a graph break", "hit", "break"),
        ("unfusable", "cumsum and amax are not fused because of a graph break", "hit", "break"),
        ("unfusable", "sum and amax are not fused because different sizes", "hit", "sizes"),
        ("unfusable", "sort and amax are not fused because extern kernel", "hit", "extern"),
        ("mlp", "graph breaks == 0", "hit", "0"),
        ("mlp", "graphs == 1", "hit", "1 (0/0 of record.py:27)"),
        ("mlp", "per step: kernels from record.py:27 == 4", "hit", "4 ("),
        ("mlp", "pointwise bytes == 151 MB each", "hit", "3 x 151.0 MB"),
        ("unfusable", "graph breaks == 0", "miss", "1 (record.py:52)"),
        ("unfusable", "recompiles == 0", "hit", "0"),
        ("unfusable", "per step: kernels from record.py:53 == 5", "hit", "5 ("),
        ("recompiles", "recompiles == 0", "miss", "1 (0/1 of record.py:27)"),
        ("recompiles", "per step: kernels from record.py:27 == 4", "hit", "4 ("),
        ("recompiles", "gelu and mul are fused", "hit", "one kernel: triton gelu+mul"),
    ],
)
def test_what_the_recorded_compiles_did(name: str, text: str, verdict: str, measured: str) -> None:
    [found] = check(compiled(name), text)
    assert found.verdict == verdict, found
    assert measured in found.measured


def test_a_miss_shows_the_kernels_and_inductors_words() -> None:
    [found] = check(compiled("unfusable"), "sum and amax are not fused because extern kernel")
    assert found.verdict == "miss"
    assert "numel/rnumel mismatch" in " ".join(found.slice)


def test_every_reason_can_be_predicted() -> None:
    assert set(WORDS.values()) == set(REASONS) - {"not_recorded"}


def test_an_unknown_reason_is_an_error() -> None:
    with pytest.raises(GuessError, match="`bad`"):
        parse("gelu and mul are not fused because bad luck")


def test_without_records_or_in_a_region_it_is_unknown(mlp: Trace) -> None:
    text = "matmul and gelu are not fused because extern kernel"
    [bare] = check(mlp, text)
    assert (bare.verdict, "foretrace record --why" in bare.why) == ("unknown", True)
    [placed] = check(compiled("mlp"), f"per step: {text}")
    assert (placed.verdict, "leave out the place" in placed.why) == ("unknown", True)


def test_in_python() -> None:
    expect = ft.expect(compiled("unfusable"))
    assert expect.graph_breaks == 1
    assert expect.recompiles == 0
    assert expect.each_step.from_line("record.py:53") == 5
    assert not (expect.graph_breaks < 1)


def test_a_guess_file_holds_what_the_compiler_did() -> None:
    held = dict(holding(compiled("unfusable")))
    assert "by the compiler's records" in held["graph breaks == 1"]
    assert {"recompiles == 0", "compiled graphs == 2"} <= set(held)


def test_a_question_about_graphs_is_asked_where_records_answer_it() -> None:
    asked = [one for one in questions(compiled("mlp")) if "torch.compile" in one.text]
    assert [one.guess("1").prediction for one in asked] == ["compiled graphs == 1"]
    bare = questions(recorded("mlp_compiled"))
    assert [one for one in bare if "torch.compile" in one.text] == []
