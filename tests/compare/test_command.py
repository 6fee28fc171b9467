"""`foretrace compare`: the document's names, exit codes, what goes where, and names that nobody
should trust.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compare.traces import steps, written
from corpus.build import Doc
from corpus.builder import TraceBuilder
from corpus.places import RECORDED
from foretrace.cli import main

EAGER, COMPILED, LIGER = (
    str(RECORDED / f"mlp_{name}.json.gz") for name in ("eager", "compiled", "liger")
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["compare", *arguments, "--no-cache"])
    out, err = capsys.readouterr()
    return code, out, err


def test_many_traces_have_one_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, EAGER, *[COMPILED, LIGER] * 3)
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    assert "A 234 us 291 us 322 us 5" in rows
    assert "G 209 us 0.89x 597 us 2.05x 609 us 1.89x 4" in rows


GPU, HOST = "gpu.time > 1.05 * a.gpu.time", "host.time > 1.05 * a.host.time"


def test_fail_if_decides_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, EAGER, COMPILED, "--json", "--fail-if", GPU, "--fail-if", HOST)
    assert code == 1
    json.loads(out)
    assert err.splitlines() == [
        f"ok  {GPU}: measured 206 us, 246 us",
        f"FAIL  {HOST}: measured 423 us, 306 us",
    ]
    assert run(capsys, EAGER, COMPILED, "--fail-if", GPU)[0] == 0
    code, out, err = run(capsys, EAGER, COMPILED, "--fail-if", "gpuu.time > 1 ms")
    assert (code, out) == (2, "")
    assert (
        "no quantity `gpuu.time`; `foretrace explain` lists the quantities\n  gpuu.time > 1 ms\n  ^"
        in err
    )


def test_nothing_to_compare_is_refused_with_the_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    instant = {"ph": "i", "name": "Record", "pid": 0, "ts": 1}
    (tmp_path / "empty.json").write_bytes(Doc([instant]).bytes())
    code, out, err = run(capsys, EAGER, str(tmp_path / "empty.json"))
    assert (code, out) == (3, "")
    assert "no complete event, so there is nothing to compare [E_NOTHING_TO_COMPARE]" in err
    assert run(capsys, EAGER, "no such file")[0] == 3
    assert run(capsys, EAGER)[0] == 2


def test_lost_data_is_shown_and_strict_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    builder = steps([5_000] * 3)
    builder.launch(200, 10)  # a launch whose kernel the profiler dropped
    lossy, whole = (
        written(tmp_path, builder, "lossy"),
        written(tmp_path, steps([5_000] * 3), "whole"),
    )
    code, out, _ = run(capsys, str(whole), str(lossy))
    assert code == 0
    page = " ".join(out.split())
    assert "! B gpu_events_missing (1)" in page
    assert "a difference may come from that" in page
    assert run(capsys, str(whole), str(lossy), "--strict")[0] == 1
    found = json.loads(run(capsys, str(whole), str(lossy), "--json")[1])
    assert found["b"]["ledger"]["notes"][0]["code"] == "gpu_events_missing"


HOSTILE = "\x1b[2J| <img src=x onerror=alert(1)> `x` [a](http://e) \u202eevil\n# h"


def test_hostile_names_do_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Neither in a terminal nor in a cell of Markdown."""
    plain = str(written(tmp_path, steps([5_000] * 3), "plain"))
    builder = steps([5_000] * 3, region=HOSTILE, name=HOSTILE).op(HOSTILE, 300, 50)
    hostile = str(written(tmp_path, builder, "hostile"))
    code, out, _ = run(capsys, plain, hostile)
    assert code == 0
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert all(len(line) <= 100 for line in out.splitlines())
    code, out, _ = run(capsys, plain, hostile, "--markdown")
    assert code == 0
    assert "<img" not in out.replace("\\<img", "")
    assert not any(line.startswith("# h") for line in out.splitlines())
    for block in out.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.replace("\\\\", "").replace("\\|", "").count("|") for line in rows}) <= 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(
            ((COMPILED, EAGER, "--compile-seconds", seconds), "1000000000")
            for seconds in ("1e308", "1000000001", "-1", "inf", "nan")
        ),
        ((EAGER,) * 27, "at most 26 traces"),
        ((EAGER, COMPILED, "--json", "--markdown"), "choose one of --json and --markdown"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str) -> None:
    code, out, err = run(capsys, *given)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1]


def test_markdown_has_the_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("--fail-if", GPU, "--fail-if", "total.kernels > 20")
    code, out, err = run(capsys, COMPILED, EAGER, "--markdown", *limits)
    assert code == 1
    assert "**FAIL**: gpu.time \\> 1.05 \\* a.gpu.time: measured 234 us, 216 us" in out
    assert "**ok**: total.kernels \\> 20" in out
    assert err.splitlines()[1].startswith("ok  total.kernels > 20")


def test_gpu_only_and_host_only_traces_compare(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gpu_only = str(written(tmp_path, TraceBuilder().kernel("sgemm", 100, 50, correlation=9), "gpu"))
    host_only = str(written(tmp_path, TraceBuilder().op("aten::mm", 0, 500), "host"))
    for pair in (
        (gpu_only, host_only),
        (host_only, gpu_only),
        (gpu_only, gpu_only),
        (host_only, host_only),
    ):
        code, out, _ = run(capsys, *pair, "--json")
        assert code == 0
        assert json.loads(out)["gpu_ns"]["ratio"] in (None, 1.0)


def _cpu_steps(*steps: dict[str, list[int]]) -> TraceBuilder:
    """Steps of 1 ms on a CPU: the lengths of the ops of each."""
    builder = TraceBuilder()
    for number, ops in enumerate(steps):
        at = number * 2_000_000
        builder.step(number, at, 1_000_000)
        for name, lengths in ops.items():
            for length in lengths:
                builder.op(f"aten::{name}", at, length)
                at += length
    return builder


def test_a_cpu_shows_which_ops_came_went_and_became_slower(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    a = _cpu_steps(
        *({"mm": [ns], "mul": [5_000, 5_000], "sum": [9_000]} for ns in (300_000, 310_000))
    )
    b = _cpu_steps(*({"mm": [ns], "relu": [7_000], "sum": [9_000]} for ns in (400_000, 410_000)))
    paths = [str(written(tmp_path, side, name)) for side, name in ((a, "a"), (b, "b"))]
    _, out, _ = run(capsys, *paths)
    assert "INCONCLUSIVE" in out
    rows = [" ".join(line.split()) for line in out.splitlines() if line.startswith("  ")]
    assert rows[rows.index("CPU ops per step calls A B saved") + 1 :] == [
        "aten::mm 1 305 us 405 us -100 us each step slower",
        "aten::mul 2 to 0 10.0 us 0 ns 10.0 us removed",
        "aten::relu 0 to 1 0 ns 7.00 us -7.00 us added",
        "other ops 1 9.00 us 9.00 us 0 ns times overlap",
        "outside of ops (Python) 676 us 579 us 97.0 us",
        "host 1.00 ms (includes profiler overhead) · times of ops are medians of self CPU time",
    ]
    assert "launches" not in out
    every = run(capsys, *paths, "--all")[1]
    assert "GPU" not in every
    assert "Profiled wall time" not in every  # it is the host's
    rows = [line.split() for line in every.partition("Ops per step")[2].splitlines()]
    assert ["aten::mm", "1", "1", "305", "us", "405", "us"] in rows
    _, out, _ = run(capsys, *paths, "--json")
    assert {row["name"]: row["apart"] for row in json.loads(out)["ops"]["same"]} == {
        "aten::mm": True,
        "aten::sum": False,
    }
