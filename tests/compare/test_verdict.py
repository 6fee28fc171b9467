"""Is it worth it: break-even, the run record, and the cases in which nothing can be said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foretrace as ft
from compare.traces import made, steps
from corpus.builder import TraceBuilder
from foretrace.base.errors import UsageError
from foretrace.compare import compare
from foretrace.compare.documents import CompareVerdict
from foretrace.compare.measure import change
from foretrace.compare.verdict import weigh
from foretrace.trace.trace import Trace

UNKNOWN = change(None, None, None)


def verdict(answer: str, least: float | None = None, most: float | None = None) -> CompareVerdict:
    return CompareVerdict(answer, "because", "bounds", least, most)


def test_break_even_is_rounded_up() -> None:
    found = weigh(verdict("faster", 100, 100), UNKNOWN, 1e-6, "call")
    assert (found.saves_ns_per_call, found.break_even_calls) == (100, 10)
    assert weigh(verdict("faster", 100, 150), UNKNOWN, 1.01e-6, "call").break_even_calls == 11


@pytest.mark.parametrize(
    ("answer", "begins"),
    [
        ("inconclusive", "Inconclusive: because."),
        ("slower", "No: because."),
        ("same", "No change: because."),
        ("different", "Not comparable: because."),
    ],
)
def test_no_break_even(answer: str, begins: str) -> None:
    found = weigh(verdict(answer), UNKNOWN, 1.0, "step")
    assert found.break_even_calls is None
    assert found.text == begins


def test_a_faster_gpu_under_a_slower_host_is_named() -> None:
    found = weigh(verdict("slower", -50, -20), change(300, 200, 0.1), 1e-6, "call")
    assert found.saves_ns_per_call == -20
    assert found.text.endswith("saves 100 ns of GPU time and breaks even after 10 calls.")


def test_the_cost_is_in_the_record_beside_the_trace(tmp_path: Path) -> None:
    a, b = (
        made(tmp_path, steps([9_000] * 3, kernel_ns=ns), name)
        for name, ns in (("a", 8_999), ("b", 3))
    )
    (tmp_path / "b.run.json").write_text(
        json.dumps({"kind": "foretrace-run", "compile": {"seconds": 0.4}})
    )
    assert compare(a, b).cost_s == 0.4
    assert compare(a, b, compile_seconds=0.8).cost_s == 0.8
    assert compare(b, a).cost_s is None


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


def with_records(
    folder: Path,
    walls: tuple[float, float],
    spreads: tuple[float, float] = (0.01, 0.01),
    **more: str,
) -> tuple[Trace, Trace]:
    """Two traces with a record beside each; the profiled host of the second takes longer."""
    made_ = []
    for name, length, wall, spread in zip("ab", (5_000, 9_000), walls, spreads, strict=True):
        record(folder, name, wall, spread, more.get("record_region"))
        made_.append(made(folder, steps([length] * 3, region=more.get("region", "")), name))
    return made_[0], made_[1]


def test_times_without_the_profiler_decide(tmp_path: Path) -> None:
    a, b = with_records(tmp_path, (3_000, 2_000))
    found = compare(a, b)
    assert (found.verdict.answer, found.verdict.basis) == ("faster", "run records")
    assert (found.worth.saves_ns_per_call, found.worth.break_even_calls) == (1_000, 400_000)
    assert "3.00 to 2.00 us without the profiler" in found.worth.text
    assert any(
        line.startswith("Wall time without the profiler falls by 33.3%") for line in found.changed
    )
    assert (found.verdict.saves_at_least_ns, found.verdict.saves_at_most_ns) == (950, 1_050)
    assert found.verdict.text.startswith("1.00 us (950 ns to 1.05 us) less per step: ")
    back = compare(b, a)
    assert (back.verdict.answer, back.worth.saves_ns_per_call) == ("slower", -1_000)
    assert (back.verdict.saves_at_least_ns, back.verdict.saves_at_most_ns) == (-1_050, -950)


def test_blocks_of_steps_give_a_spread_that_one_outlier_does_not_move(tmp_path: Path) -> None:
    a, b = with_records(tmp_path, (3_000, 2_900), (0.8, 0.8))
    assert compare(a, b).verdict.answer == "inconclusive"
    for name, wall in (("a", 3_000), ("b", 2_900)):
        path = tmp_path / f"{name}.run.json"
        said = json.loads(path.read_text())
        said["timing"]["block_ns"] = [*(wall + 10 * (at % 3 - 1) for at in range(9)), 5 * wall]
        path.write_text(json.dumps(said))
    found = compare(*(ft.open(tmp_path / f"{name}.json", cache=False) for name in "ab"))
    assert (found.verdict.answer, found.bare_wall_ns.saved) == ("faster", 100)
    for name in "ab":  # the host takes all of the time: two processes of one program differ as much
        path = tmp_path / f"{name}.run.json"
        said = json.loads(path.read_text())
        said["timing"]["host_ns_per_call"] = said["timing"]["wall_ns_per_call"]
        path.write_text(json.dumps(said))
    found = compare(*(ft.open(tmp_path / f"{name}.json", cache=False) for name in "ab"))
    assert (found.verdict.answer, found.bare_wall_ns.noise) == (
        "inconclusive",
        pytest.approx(0.295, abs=0.01),
    )


def test_sharing_its_cores_makes_no_step_ten_times_as_long(tmp_path: Path) -> None:
    with_records(tmp_path, (30_000, 2_000))
    path = tmp_path / "a.run.json"
    said = json.loads(path.read_text())
    said["timing"] |= {"preempted_per_s": 200.0, "host_ns_per_call": 30_000}
    path.write_text(json.dumps(said))
    found = compare(*(ft.open(tmp_path / f"{name}.json", cache=False) for name in "ab"))
    assert found.verdict.answer == "faster"


def test_one_record_does_not_decide(tmp_path: Path) -> None:
    a, b = with_records(tmp_path, (3_000, 2_000))
    (tmp_path / "b.run.json").unlink()
    found = compare(a, b)
    assert (found.verdict.answer, found.worth.saves_ns_per_call) == ("inconclusive", None)
    assert "includes profiler overhead" in found.verdict.text


def test_the_spread_of_the_records_is_noise(tmp_path: Path) -> None:
    found = compare(*with_records(tmp_path, (3_000, 2_900), (0.3, 0.1)))
    assert (found.worth.saves_ns_per_call, found.worth.break_even_calls) == (None, None)
    assert found.worth.text.startswith("Inconclusive: 3.00 to 2.90 us per step without the")


def test_ranges_that_do_not_meet_decide(tmp_path: Path) -> None:
    """A keeps the GPU busy for longer than B takes with the profiler on."""
    a = made(tmp_path, steps([9_500] * 3, kernel_ns=9_000), "a")
    b = made(tmp_path, steps([5_000] * 3, kernel_ns=4_000), "b")
    found, back = compare(a, b).verdict, compare(b, a).verdict
    assert (found.answer, found.basis) == ("faster", "bounds")
    assert (found.saves_at_least_ns, found.saves_at_most_ns) == (4_000, 5_500)
    assert found.text.startswith("4.00 to 5.50 us less per step: A takes 9.00 to 9.50 us, B takes")
    assert (back.answer, back.saves_at_least_ns, back.saves_at_most_ns) == (
        "slower",
        -5_500,
        -4_000,
    )


def test_ranges_that_meet_do_not_decide(tmp_path: Path) -> None:
    a = made(tmp_path, steps([9_500] * 3, kernel_ns=9_000), "a")
    b = made(tmp_path, steps([9_200] * 3, kernel_ns=8_800), "b")
    assert compare(a, b).verdict.answer == "inconclusive"


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e308])
def test_an_impossible_cost_is_refused(tmp_path: Path, seconds: float) -> None:
    trace = made(tmp_path, steps([5_000] * 3))
    with pytest.raises(UsageError, match="cannot cost"):
        compare(trace, trace, compile_seconds=seconds)


def test_on_a_cpu_other_ops_are_not_the_same_ops(tmp_path: Path) -> None:
    """A script that failed before its first op was "SAME  the same ops per run" as a whole one."""

    def ran(name: str, *ops: str) -> Trace:
        builder = TraceBuilder()
        for at in (0, 1_000, 2_000):
            builder.step(at // 1_000, at, 900)
            for place, op in enumerate(ops):
                builder.op(op, at + 100 * place + 10, 90)
        return made(tmp_path, builder, name)

    one, other = ran("one", "aten::mm"), ran("other", "aten::mm", "aten::add")
    same = compare(one, ran("again", "aten::mm")).verdict
    assert (same.answer, same.text) == (
        "same",
        "the same ops per step, no time beyond the noise of 7.1%",
    )
    for a, b in ((one, other), (other, one)):
        assert compare(a, b).verdict.answer == "inconclusive"
