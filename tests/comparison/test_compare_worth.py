"""Is it worth it: break-even, the run record, and the cases in which nothing can be said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from comparison.traces import made, recorded, steps
from foretrace.comparison import compare
from foretrace.comparison.measure import Change
from foretrace.comparison.worth import pace_setter, worth
from foretrace.errors import UsageError
from foretrace.schema.run_record import NO_RECORD, RunCompile, RunRung, RunTiming, read_run

UNKNOWN = Change(None, None, None)


def test_break_even_is_rounded_up() -> None:
    found = worth(Change(300, 200, 0.1), UNKNOWN, 1e-6, "call")
    assert (found.saves_ns_per_call, found.break_even_calls) == (100, 10)
    assert worth(Change(300, 200, 0.1), UNKNOWN, 1.01e-6, "call").break_even_calls == 11


@pytest.mark.parametrize(
    ("pace", "cost_s", "begins"),
    [
        (
            Change(300, 290, 0.1),
            1.0,
            "Inconclusive: 10 ns less per step (includes profiler overhead) is within the noise of",
        ),
        (Change(300, 200, None), 1.0, "Inconclusive: one repeat only"),
        (UNKNOWN, 1.0, "Inconclusive: the times are not recorded"),
        (
            Change(200, 300, 0.1),
            1.0,
            "No: each step takes 100 ns more (includes profiler overhead).",
        ),
        (Change(200, 200, 0.1), 1.0, "No change: each step takes the same time ("),
    ],
)
def test_no_break_even(pace: Change, cost_s: float, begins: str) -> None:
    found = worth(pace, UNKNOWN, cost_s, "step")
    assert found.break_even_calls is None
    assert found.text.startswith(begins)


@pytest.mark.parametrize(
    ("host", "gpu", "who"),
    [
        ((200, 300), (100, 100), "the host"),
        ((100, 100), (200, 300), "the GPU"),
        ((100, 300), (200, 250), "the slower of host and GPU"),
    ],
)
def test_the_text_says_whose_time_it_is(
    host: tuple[int, int], gpu: tuple[int, int], who: str
) -> None:
    """The larger of host and GPU time is not the wall time, which waits for both."""
    pace, known = Change(200, 300, 0.1), Change(*gpu, 0.1)
    assert pace_setter(pace, Change(*host, 0.1), known) == who
    assert worth(pace, known, 1.0, "call", who=who).text.startswith(
        f"No: {who} takes 100 ns more per call (includes profiler overhead)"
    )
    back = worth(Change(300, 200, 0.1), known, 1e-6, "call", who=who).text
    assert back.lower().startswith(f"{who.lower()} takes 100 ns less per call (includes")


def test_an_unknown_cost_asks_for_it() -> None:
    found = worth(Change(300, 200, 0.1), UNKNOWN, None, "call")
    assert (found.cost_s, found.break_even_calls) == (None, None)
    assert "--compile-seconds" in found.text


def test_the_record_beside_the_trace(tmp_path: Path) -> None:
    a, b = made(tmp_path, steps([9_000] * 3), "a"), made(tmp_path, steps([5_000] * 3), "b")
    (tmp_path / "b.run.json").write_text(
        json.dumps({"kind": "foretrace-run", "compile": {"seconds": 0.4}})
    )
    assert compare(a, b).worth.break_even_calls == 100_000
    assert compare(a, b, compile_seconds=0.8).worth.break_even_calls == 200_000
    assert compare(b, a).worth.cost_s is None


def record(
    folder: Path,
    name: str,
    wall_ns: float | None,
    spread: float | None = 0.01,
    region: str | None = None,
) -> None:
    """A run record beside the trace of that name."""
    timing = {"wall_ns_per_call": wall_ns, "wall_spread": spread, "host_ns_per_call": 100}
    (folder / f"{name}.run.json").write_text(
        json.dumps(
            {
                "kind": "foretrace-run",
                "compile": {"seconds": 0.4},
                "timing": timing,
                "rung": {"region": region},
            }
        )
    )


def test_times_without_the_profiler_decide(tmp_path: Path) -> None:
    """The profiled host takes longer, the program does not."""
    a, b = made(tmp_path, steps([5_000] * 3), "a"), made(tmp_path, steps([9_000] * 3), "b")
    assert "(includes profiler overhead)" in compare(a, b).worth.text
    record(tmp_path, "a", 3_000)
    assert compare(a, b).worth.saves_ns_per_call == -4_000
    record(tmp_path, "b", 2_000)
    found = compare(a, b)
    assert (found.worth.saves_ns_per_call, found.worth.break_even_calls) == (1_000, 400_000)
    assert (
        "(measured without the profiler: 3.00 to 2.00 us, host 100 to 100 ns)" in found.worth.text
    )
    assert any(
        line.startswith("Wall time without the profiler falls by 33.3%") for line in found.changed
    )
    assert compare(b, a).worth.saves_ns_per_call == -1_000


def test_the_spread_of_the_records_is_noise(tmp_path: Path) -> None:
    a, b = made(tmp_path, steps([5_000] * 3), "a"), made(tmp_path, steps([9_000] * 3), "b")
    record(tmp_path, "a", 3_000, 0.3)
    record(tmp_path, "b", 2_900, 0.1)
    found = compare(a, b).worth
    assert (found.saves_ns_per_call, found.break_even_calls) == (100, None)
    assert found.text.startswith(
        "Inconclusive: 100 ns less per step (measured without the profiler: 3.00 to 2.90 us"
    )


def test_the_records_must_have_timed_the_unit(tmp_path: Path) -> None:
    a, b = (
        made(tmp_path, steps(lengths, region="fwd"), name)
        for name, lengths in (("a", [5_000] * 3), ("b", [9_000] * 3))
    )
    for name, wall in (("a", 3_000), ("b", 2_000)):
        record(tmp_path, name, wall, region="train")
    assert compare(a, b, region="fwd").worth.saves_ns_per_call == -4_000
    for name, wall in (("a", 3_000), ("b", 2_000)):
        record(tmp_path, name, wall, region="fwd")
    assert compare(a, b, region="fwd").worth.saves_ns_per_call == 1_000


def test_the_recorded_mlp_pays_without_the_profiler() -> None:
    """241,862 ns to 229,899 ns in the run records; profiled, the compiled host takes longer."""
    found = compare(recorded("mlp eager"), recorded("mlp compiled"))
    assert found.pace_ns.saved is not None
    assert found.pace_ns.saved < 0
    assert (found.worth.saves_ns_per_call, found.worth.break_even_calls) == (11_963, 97_878)
    assert (
        compare(recorded("mlp compiled"), recorded("mlp eager")).worth.saves_ns_per_call == -11_963
    )


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
        f'{{"kind": "foretrace-run", "compile": {{"seconds": {10**400}}}}}',
        f'{{"kind": "foretrace-run", "timing": {{"wall_ns_per_call": {10**400}, '
        f'"host_ns_per_call": 1e300}}}}',
        '{"kind": "foretrace-run", "timing": {"wall_ns_per_call": 0, "host_ns_per_call": 1e-320}}',
        '{"kind": "foretrace-run", "timing": {"wall_ns_per_call": -1, "wall_spread": true}, '
        '"rung": "mlp"}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_record_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.run.json").write_text(text)
    found = read_run(str(tmp_path / "t.json.gz"))
    stated = (found.timing, found.compile, found.rung, found.device, found.torch)
    assert stated == (RunTiming(), RunCompile(), RunRung(), None, None)


def test_one_invalid_entry_of_a_record_costs_no_other(tmp_path: Path) -> None:
    text = '{"kind": "foretrace-run", "timing": {"wall_ns_per_call": 5e3, "wall_spread": -1}}'
    (tmp_path / "t.run.json").write_text(text)
    found = read_run(str(tmp_path / "t.json.gz"))
    assert found.timing == RunTiming(wall_ns_per_call=5_000)
    assert found.ignored == ("timing.wall_spread",)


def test_no_record_for_an_archive_member(tmp_path: Path) -> None:
    assert read_run(f"{tmp_path}/a.zip::t.json") == NO_RECORD
    assert read_run("-") == NO_RECORD


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e308])
def test_an_impossible_cost_is_refused(tmp_path: Path, seconds: float) -> None:
    trace = made(tmp_path, steps([5_000] * 3))
    with pytest.raises(UsageError, match="cannot cost"):
        compare(trace, trace, compile_seconds=seconds)


def test_the_largest_times_of_records_compare(tmp_path: Path) -> None:
    """A cost of 30 years, paid by a billionth of a nanosecond a call: large numbers, and no
    infinity.
    """
    a, b = made(tmp_path, steps([5_000] * 3), "a"), made(tmp_path, steps([5_000] * 3), "b")
    record(tmp_path, "a", 1 + 1e-9, 0)
    record(tmp_path, "b", 1, 0)
    calls = compare(a, b, compile_seconds=1e9).worth.break_even_calls
    assert calls is not None
    assert calls > 10**26
