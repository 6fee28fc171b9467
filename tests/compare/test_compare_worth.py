"""Is it worth it: break-even, the run record, and the cases in which nothing can be said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compare.traces import made, steps
from foretrace.compare import compare
from foretrace.compare.measure import Measured
from foretrace.compare.worth import recorded_seconds, worth
from foretrace.errors import UsageError

UNKNOWN = Measured(None, None, None)


def test_break_even_is_rounded_up() -> None:
    found = worth(Measured(300, 200, 0.1), UNKNOWN, 1e-6, "call")
    assert (found.saves_ns_per_call, found.break_even_calls) == (100, 10)
    assert worth(Measured(300, 200, 0.1), UNKNOWN, 1.01e-6, "call").break_even_calls == 11


@pytest.mark.parametrize(
    ("pace", "cost_s", "begins"),
    [
        (Measured(300, 290, 0.1), 1.0, "Cannot be told: 10 ns less per step lies inside the noise of 10.0%"),
        (Measured(300, 200, None), 1.0, "Cannot be told: one repeat only"),
        (UNKNOWN, 1.0, "Cannot be told: the times are not recorded"),
        (Measured(200, 300, 0.1), 1.0, "No: each step takes 100 ns longer."),
        (Measured(200, 200, 0.1), 1.0, "A step takes as long as before."),
    ],
)
def test_no_break_even(pace: Measured, cost_s: float, begins: str) -> None:
    found = worth(pace, UNKNOWN, cost_s, "step")
    assert found.break_even_calls is None
    assert found.text.startswith(begins)


def test_an_unknown_cost_asks_for_it() -> None:
    found = worth(Measured(300, 200, 0.1), UNKNOWN, None, "call")
    assert (found.cost_s, found.break_even_calls) == (None, None)
    assert "--compile-seconds" in found.text


def test_the_record_beside_the_trace(tmp_path: Path) -> None:
    a, b = made(tmp_path, steps([9_000] * 3), "a"), made(tmp_path, steps([5_000] * 3), "b")
    (tmp_path / "b.run.json").write_text(json.dumps({"kind": "foretrace-run", "compile": {"seconds": 0.4}}))
    assert compare(a, b).worth.break_even_calls == 100_000
    assert compare(a, b, compile_seconds=0.8).worth.break_even_calls == 200_000
    assert compare(b, a).worth.cost_s is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"kind": "foretrace-run"}',
        '{"kind": "other", "compile": {"seconds": 1}}',
        '{"kind": "foretrace-run", "compile": {"seconds": -1}}',
        '{"kind": "foretrace-run", "compile": {"seconds": "Infinity"}}',
        '{"kind": "foretrace-run", "compile": {"seconds": null}}',
        '{"kind": "foretrace-run", "compile": [1]}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_record_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.run.json").write_text(text)
    assert recorded_seconds(str(tmp_path / "t.json.gz")) is None


def test_no_record_for_an_archive_member(tmp_path: Path) -> None:
    assert recorded_seconds(f"{tmp_path}/a.zip::t.json") is None
    assert recorded_seconds("-") is None


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_an_impossible_cost_is_refused(tmp_path: Path, seconds: float) -> None:
    trace = made(tmp_path, steps([5_000] * 3))
    with pytest.raises(UsageError, match="cannot cost"):
        compare(trace, trace, compile_seconds=seconds)
