"""`look` with the compiler's records beside the trace: lines, exact traffic, and what is cached."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest

import foretrace as ft
from foretrace.look import reading
from foretrace.look.documents import Look
from foretrace.trace.trace import Trace
from opened_traces import opened

COMPILED = Path(__file__).parents[1] / "data" / "compile"


@cache
def _trace(name: str) -> Trace:
    return opened(COMPILED / name / "trace.json.gz")


@cache
def _look(name: str) -> Look:
    return ft.look(_trace(name))


def test_dynamic_sizes_have_the_bytes_of_each_run() -> None:
    rows = [row for row in _look("recompiles").kernels if row.family == "inductor_triton"]
    assert sorted((row.bytes, row.cost_certainty) for row in rows) == [
        (3 * 2 * batch * 128 * 3072, "exact") for batch in (8, 32, 64)
    ]


def test_the_cached_overview_depends_on_the_records(tmp_path: Path) -> None:
    trace = tmp_path / "run.json.gz"
    shutil.copy(COMPILED / "mlp" / "trace.json.gz", trace)
    bare = reading._program(str(trace), None)
    bundle = tmp_path / "run.why"
    bundle.mkdir()
    log = bundle / "torch_trace.log.gz"
    shutil.copy(COMPILED / "mlp" / "torch_trace.log.gz", log)
    kept = reading._program(str(trace), None)
    log.write_bytes(log.read_bytes()[:-9])
    assert len({bare, kept, reading._program(str(trace), None)}) == 3


def test_broken_records_cost_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "run.json.gz"
    shutil.copy(COMPILED / "mlp" / "trace.json.gz", trace)
    bundle = tmp_path / "run.why"
    bundle.mkdir()
    (bundle / "torch_trace.log.gz").write_bytes(b"\x1f\x8b not gzip")
    [row] = [
        row
        for row in ft.look(ft.open(trace, cache=False)).kernels
        if row.family == "inductor_triton"
    ]
    assert (row.cost_certainty, row.sources) == ("estimate", [])


def test_records_that_no_code_understands_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise IndexError("odd")

    monkeypatch.setattr("foretrace.trace.compiled.launches.join", fails)
    trace = ft.open(COMPILED / "mlp" / "trace.json.gz", cache=False)
    [row] = [row for row in ft.look(trace).kernels if row.family == "inductor_triton"]
    assert (row.cost_certainty, row.sources) == ("estimate", [])
    assert "are not used: IndexError: odd" in capsys.readouterr().err
    [verdict] = ft.check(trace, "graph_breaks == 0")
    assert verdict.verdict == "unknown"
