"""Why two ops are not one kernel, on four compiles as recorded on an H200."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import foretrace as ft
from foretrace.check import check
from foretrace.check.kinds.compiler import WORDS
from foretrace.trace.trace import Trace
from foretrace.why.not_fused import REASONS

COMPILED = Path(__file__).parents[1] / "data" / "compile"


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


def test_every_reason_can_be_predicted() -> None:
    assert set(WORDS.values()) == set(REASONS) - {"not_recorded"}


def test_without_records_or_in_a_region_it_is_unknown(mlp: Trace) -> None:
    text = "matmul and gelu are not fused because extern kernel"
    [bare] = check(mlp, text)
    assert (bare.verdict, "foretrace record --why" in bare.why) == ("unknown", True)
    [placed] = check(compiled("mlp"), f"per step: {text}")
    assert (placed.verdict, "leave out the place" in placed.why) == ("unknown", True)
