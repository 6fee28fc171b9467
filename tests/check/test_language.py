"""What can be said, what happens to what cannot."""

from __future__ import annotations

import inspect
import sys

import pytest

from check.conftest import EXAMPLES, recorded
from foretrace.check import GuessError, check, kinds, parse
from foretrace.check.verdict import VERDICTS
from foretrace.check.windows import Scope
from sweep import looped

SAID = [(kind, text) for kind, examples in EXAMPLES.items() for text in examples]


@looped(("kind", "text"), SAID, ids=[text for _, text in SAID])
def test_an_example_belongs_to_its_kind_and_can_be_marked(kind: str, text: str) -> None:
    assert parse(text).kind.name == kind
    [verdict] = check(recorded("mlp_eager"), text, recorded("mlp_compiled"))
    assert verdict.verdict in VERDICTS
    assert verdict.text == text
    assert verdict.why or verdict.verdict != "unknown"
    assert verdict.measured or verdict.verdict == "unknown"
    assert (
        verdict.slice
        or verdict.events
        or verdict.verdict != "miss"
        or verdict.measured.startswith(("0", "there is no"))
    )


@looped("kind", kinds.every(), ids=lambda kind: kind.name)
def test_a_kind_is_documented(kind: kinds.GuessKind) -> None:
    assert inspect.getdoc(sys.modules[kind.measure.__module__])
    assert EXAMPLES[kind.name]
    assert all(EXAMPLES[kind.name].values())


@looped(
    ("text", "word", "nearest"),
    [
        ("in mlp_fwd: kernls == 5", "kernls", "kernels"),
        ("gemn == 3", "gemn", "gemm"),
        ("every gemm has layot tn", "layot", "layout"),
        ("evry gemm has layout tn", "evry", "every"),
        ("every gemm hass layout tn", "hass", "has"),
        ("bound is memry", "memry", "memory"),
        ("gelu and mull are fused", "mull", "mul"),
        ("gelu and mul are fussed", "fussed", "fused"),
        ("gpu idel < 10%", "idel", "idle"),
        ("gemm flops == 38.65 GFLOPP each", "GFLOPP", "GFLOP"),
        ("gemm flops == 38.65 GFLOP eech", "eech", "each"),
        ("gemm time < 50 uss", "uss", "us"),
        ("aten::t launches 0 kernele", "kernele", "kernel"),
    ],
)
def test_the_error_points_at_the_word(text: str, word: str, nearest: str) -> None:
    with pytest.raises(GuessError) as caught:
        parse(text)
    error = caught.value
    assert (error.word, error.nearest) == (word, nearest)
    _, line, carets = str(error).split("\n")
    assert line == f"  {text}"
    assert carets.startswith(" " * (2 + error.at) + "^" * len(word))
    assert text[error.at : error.at + len(word)] == word
    assert f"`{word}`" in carets
    assert f"`{nearest}`" in carets


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("in mlp_fwdd: kernels == 5", "it has mlp_fwd"),
        ("in step 9: kernels == 5", "it has 2, 3, 4"),
    ],
)
def test_a_place_that_is_not_there_is_an_error_and_the_others_are_named(
    text: str, there: str
) -> None:
    [verdict] = check(recorded("mlp_eager"), text)
    assert verdict.verdict == "error"
    assert there in verdict.why


@looped(
    "name",
    [
        "mlp_fwd",
        "nccl:all_reduce",
        "a b",
        "step",
        "steps",
        "region",
        "Each",
        "x.y-z",
        "in",
        "::",
        "a,b",
        "kernels == 5",
        "5",
    ],
)
def test_any_name_of_a_region_can_be_said(name: str) -> None:
    place = Scope("op" if "::" in name else "region", name)
    assert parse(f"{place.text}: kernels == 5").scope == place
    assert parse(f"kernels == 5 {place.text}").scope == place
