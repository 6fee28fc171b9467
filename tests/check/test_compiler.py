"""Predictions about torch.compile, on records made by hand and on traces without records."""

from __future__ import annotations

from pathlib import Path

import pytest

from check.conftest import recorded
from corpus.builder import TraceBuilder
from foretrace import Trace
from foretrace.check import check
from foretrace.check.verdict import Verdict
from foretrace.read.compiler.records import (
    Compilation,
    CompilerRun,
    FxGraph,
    GraphBreak,
    GuardFailure,
    SourceLine,
)
from foretrace.read.ledger import Ledger
from opened_traces import open_made

MODEL = SourceLine("/home/me/model.py", 41, "forward")
GRAPH = (FxGraph("dynamo"),)
ONE = Compilation("0/0", MODEL, graphs=GRAPH, compile_ns=2_000_000_000)
AGAIN = Compilation(
    "0/1",
    MODEL,
    graphs=GRAPH,
    recompile=(GuardFailure("0/0", "size mismatch at index 0. expected 64, actual 32"),),
    compile_ns=1_000_000_000,
)
BROKEN = Compilation(
    "1/0",
    MODEL,
    graphs=GRAPH,
    breaks=(GraphBreak(SourceLine("/home/me/model.py", 63), "Call to print()\nmore"),),
)


def _run(*compilations: Compilation, skipped: int = 0) -> CompilerRun:
    return CompilerRun("run.why", compilations, Ledger(9, 9 - skipped, 0, skipped))


def _marked(
    monkeypatch: pytest.MonkeyPatch, run: CompilerRun | None, text: str, trace: Trace | None = None
) -> Verdict:
    monkeypatch.setattr(Trace, "compiler_run", run)
    [verdict] = check(trace or recorded("mlp_compiled"), text)
    return verdict


@pytest.mark.parametrize(
    ("compilations", "text", "verdict", "measured"),
    [
        ((ONE,), "graph breaks == 0", "hit", "0"),
        ((ONE,), "no graph breaks", "hit", "0"),
        ((ONE, BROKEN), "zero graph breaks", "miss", "1 (model.py:63)"),
        ((ONE, BROKEN, BROKEN), "graph breaks == 1", "hit", "1 (model.py:63)"),
        ((ONE,), "recompiles == 0", "hit", "0"),
        ((ONE, AGAIN), "no recompilations", "miss", "1 (0/1 of model.py:41)"),
        ((ONE, AGAIN), "at most 1 recompiles", "hit", "1 (0/1 of model.py:41)"),
        ((ONE,), "graphs == 1", "hit", "1 (0/0 of model.py:41)"),
        ((ONE, AGAIN), "compiled graphs == 1", "miss",
         "2 (0/0 of model.py:41, 0/1 of model.py:41)"),
        ((ONE,), "compile time < 30 s", "hit", "2.00 s"),
        ((ONE, AGAIN), "compile time < 3 s", "miss", "3.00 s"),
        ((ONE, BROKEN), "compile time < 3 s", "unknown", "at least 2.00 s"),
    ],
)  # fmt: skip
def test_with_records(
    compilations: tuple[Compilation, ...], text: str, verdict: str, measured: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    found = _marked(monkeypatch, _run(*compilations), text)
    assert (found.verdict, found.measured) == (verdict, measured)


def test_a_lost_record_leaves_open_what_it_could_overturn(monkeypatch: pytest.MonkeyPatch) -> None:
    lossy = _run(ONE, AGAIN, skipped=1)
    found = _marked(monkeypatch, lossy, "graph breaks == 0")
    assert (found.verdict, found.measured) == ("unknown", "0 or more")
    assert "1 of the compiler's records cannot be read" in found.why
    assert _marked(monkeypatch, lossy, "recompiles == 0").verdict == "miss"


def test_a_region_that_the_records_lack_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _marked(monkeypatch, _run(BROKEN), "recompiles == 0")
    assert (found.verdict, found.why) == (
        "unknown",
        "the compiler's records do not have 0/0",
    )


@pytest.mark.parametrize(
    "text", ["graph breaks == 0", "recompiles == 0", "graphs == 1", "compile time < 30 s"]
)
def test_without_records_it_is_unknown_and_says_how_to_record(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _marked(monkeypatch, None, text)
    assert found.verdict == "unknown"
    assert "foretrace record --why" in found.why


def _traced(tmp_path: Path, *names: str) -> Trace:
    builder = TraceBuilder()
    for at, name in enumerate(names):
        builder.op(name, 10 * at, 5)
    return open_made(builder, tmp_path)


def test_a_trace_alone_shows_that_there_was_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = "Torch-Compiled Region: "
    trace = _traced(
        tmp_path, f"{region}0/0", f"{region}0/2", f"{region}1/0",
        "model.py(41): torch_dynamo_resume_in_forward_at_41", "torch_dynamo_resume_in_forward_at_41",
    )  # fmt: skip
    for text, verdict, measured in (
        ("recompiles == 0", "miss", "2 or more"),
        ("recompiles >= 2", "hit", "2 or more"),
        ("recompiles == 2", "unknown", "2 or more"),
        ("graph breaks == 0", "miss", "1 or more"),
        ("compiled graphs == 2", "miss", "3 or more"),
        ("compiled graphs == 3", "unknown", "3 or more"),
    ):
        found = _marked(monkeypatch, None, text, trace)
        assert (found.verdict, found.measured) == (verdict, measured), text
