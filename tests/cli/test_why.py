"""`foretrace why`: its screens, its document, and one line for what is missing."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import foretrace
from compiled_recordings import compiled
from foretrace import why
from foretrace.base import tables
from foretrace.base.tables import LINES, encode
from foretrace.cli import main
from foretrace.why.documents import Why
from foretrace.why.lines import PARTS, sections

DATA = Path(__file__).parents[1] / "data" / "compile"
RUNS = ("mlp", "unfusable", "recompiles", "llama_train")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORETRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")


def _said(capsys: Capture, *arguments: object) -> str:
    assert main(["why", *map(str, arguments)]) == 0
    return capsys.readouterr().out


@cache
def _document(run: str) -> Any:
    """What `--json` prints of a recorded run, made once."""
    found = why.explain(compiled(run), foretrace.open(DATA / run / "trace.json.gz", cache=False))
    return json.loads(encode(found))


def _refused(capsys: Capture, *arguments: object) -> tuple[int, str]:
    code, said = main(["why", *map(str, arguments)]), capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("foretrace: ")
    return code, said.err


@pytest.mark.parametrize("run", RUNS)
def test_the_screens_fit_and_begin_with_the_answer(run: str, capsys: Capture) -> None:
    text = _said(capsys, DATA / run)
    assert len(text.splitlines()) <= LINES
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith(f"{run} · NVIDIA H200 · 3 steps\nCOMPILED  ")
    page = sections(msgspec.convert(_document(run), Why), PARTS, 20)
    assert "Not fused, by reason" in tables.text(page, width=80)
    assert "## Not fused, by reason" in tables.marked(page)


@pytest.mark.parametrize("run", RUNS)
def test_every_compiled_kernel_is_explained(run: str) -> None:
    """All kernels below a compiled graph, counted here from the raw trace, belong to a call."""
    found = _document(run)
    assert found["unexplained"] == []
    launched = sum(row["launches"] for row in found["kernels"])
    assert launched == found["launches"] == _compiled_kernels(DATA / run / "trace.json.gz")
    for row in found["kernels"]:
        assert row["sources"]
        assert row["nodes"]
        assert row["code"]
        assert row["loads"] or row["stores"]
        assert row["bytes"] is not None or row["run_bytes"]


def _compiled_kernels(path: Path) -> int:
    """Kernels whose launch lies in a compiled graph's call, by time and correlation."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    calls = [
        (each["tid"], each["ts"], each["ts"] + each["dur"])
        for each in events
        if each.get("cat") == "user_annotation" and "CompiledFxGraph" in each["name"]
    ]
    launches = {
        each["args"]["correlation"]
        for each in events
        if each.get("cat") in ("cuda_runtime", "cuda_driver")
        if any(tid == each["tid"] and a <= each["ts"] <= b for tid, a, b in calls)
    }
    kernels = [each for each in events if each.get("cat") == "kernel"]
    return sum(each["args"]["correlation"] in launches for each in kernels)


def test_the_document_is_the_contract(capsys: Capture) -> None:
    found = json.loads(_said(capsys, DATA / "mlp", "--json"))
    assert {**found, "path": ""} == {
        **_document("mlp"),
        "path": "",
        "sources": found["sources"],
    } | {"trace": found["trace"]}
    assert found["schema"] == 4
    (fused,) = [row for row in found["kernels"] if not row["extern"]]
    assert fused["name"] == "triton_poi_fused__unsafe_view_gelu_mul_0"
    assert [(line["file"].rsplit("/", 1)[-1], line["line"]) for line in fused["sources"]] == [
        ("record.py", 27)
    ]
    assert fused["bytes"] == 3 * 64 * 128 * 3072 * 2  # 151 MB: two loads and a store of bf16
    assert fused["launches"] == 3
    assert fused["time_ns"] == _kernel_time(DATA / "mlp" / "trace.json.gz", fused["name"])
    assert {"a", "b", "reason", "inductor", "at_most_ns"} <= set(found["not_fused"][0])
    assert found["stages"]
    assert found["graph_breaks"] == []
    assert found["recompiles"] == []


def _kernel_time(path: Path, name: str) -> int:
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    chosen = [each for each in events if each.get("cat") == "kernel" and each["name"] == name]
    return round(sum(each["dur"] for each in chosen) * 1000)


def test_unfused_ops_move_more() -> None:
    (fused,) = [row for row in _document("mlp")["kernels"] if not row["extern"]]
    one = 64 * 128 * 3072 * 2
    assert fused["unfused"]["ops"] == (2 + 3) * one  # gelu reads 1 and writes 1, mul 2 and 1
    assert fused["unfused"]["nodes"] > fused["unfused"]["ops"]


def test_refusals_add_up() -> None:
    found = _document("llama_train")
    assert sum(row["refusals"] for row in found["reasons"]) == 534
    assert len(found["reasons"]) <= 12
    pairs = Counter(row["code"] for row in found["not_fused"])
    assert pairs == {row["code"]: row["pairs"] for row in found["reasons"] if row["pairs"]}


def test_a_kernel_by_any_part_of_its_name(capsys: Capture) -> None:
    whole = _said(capsys, DATA / "mlp", "triton_poi_fused__unsafe_view_gelu_mul_0")
    assert "151.0 MB per run: reads 100.7 MB, writes 50.3 MB" in whole
    assert "@triton.jit" in whole
    assert "XBLOCK 512, num_warps 8" in whole
    for part in ("triton_poi", "gelu_mul", "triton_poi_fused_gelu_mul_0"):
        assert _said(capsys, DATA / "mlp", part) == whole


def test_a_kernel_that_is_not_there_names_the_nearest(capsys: Capture) -> None:
    code, said = _refused(capsys, DATA / "mlp", "triton_poi_fused_gelu_1")
    assert code == 2
    assert "triton_poi_fused__unsafe_view_gelu_mul_0" in said
    code, said = _refused(capsys, DATA / "unfusable", "triton_per")
    assert code == 2
    assert "fits 3 kernels" in said


def test_graph_breaks_and_recompilations(capsys: Capture) -> None:
    text = _said(capsys, DATA / "unfusable", "--breaks")
    assert (
        "record.py:52 in f: torch._dynamo.graph_break() (ends graph 0/0; the rest is 1/0)" in text
    )
    assert "Hint: Remove the `torch._dynamo.graph_break()` call." in text
    again = _said(capsys, DATA / "recompiles", "--breaks")
    assert "tensor 'x' size mismatch at index 0. expected 64, actual 32" in again


def test_a_log_without_a_trace(capsys: Capture) -> None:
    text = _said(capsys, DATA / "mlp" / "torch_trace.log.gz")
    assert "no times (foretrace record --why keeps both)" in text
    assert "NOT KNOWN  fusion reasons (TORCH_LOGS=+fusion)" in text


def test_what_is_missing_or_ambiguous_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    trace = DATA / "mlp" / "trace.json.gz"
    for name in ("empty", "other", "several", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "empty.log").touch()
    shutil.copy(trace, tmp_path / "run.json.gz")
    for path in ("empty", "empty.log", "run.json.gz"):
        code, said = _refused(capsys, tmp_path / path)
        assert (code, "foretrace record --why" in said) == (3, True)
    assert _refused(capsys, tmp_path / "nothing.log")[0] == 3

    shutil.copy(trace, tmp_path / "other")
    shutil.copy(DATA / "unfusable" / "torch_trace.log.gz", tmp_path / "other")
    code, said = _refused(capsys, tmp_path / "other")
    assert (code, "another run" in said) == (3, True)

    several = tmp_path / "several" / "run"
    shutil.copytree(DATA / "mlp", several)
    shutil.copy(trace, several / "other.json.gz")
    code, said = _refused(capsys, several)
    assert (code, "choose one: other.json.gz, trace.json.gz" in said) == (2, True)
    assert _said(capsys, several / "trace.json.gz")

    for run in ("mlp", "unfusable"):
        shutil.copytree(DATA / run, tmp_path / "two" / run)
    code, said = _refused(capsys, tmp_path / "two")
    assert (code, "2 runs" in said) == (2, True)

    log = tmp_path / "torch_trace.log"
    log.write_text('V1115 07:59:40.7 652 torch/x.py:1] {"artifact": {"name": "cut", "enc')
    code, said = _refused(capsys, log)
    assert (code, "holds no record of torch.compile" in said) == (3, True)


def test_damage_is_shown_and_strict_fails(tmp_path: Path, capsys: Capture) -> None:
    whole = gzip.decompress((DATA / "mlp" / "torch_trace.log.gz").read_bytes())
    (tmp_path / "torch_trace.log").write_bytes(whole[:90_000])
    text = _said(capsys, tmp_path / "torch_trace.log")
    assert "! log_payload_damaged (1)" in text
    assert main(["why", str(tmp_path / "torch_trace.log"), "--strict"]) == 1


def test_the_page_shows_what_the_command_prints(capsys: Capture, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(DATA)
    page = (DATA.parents[2] / "docs" / "why.md").read_text()
    blocks = [block.partition("\n```")[0] for block in page.split("```text\n$ foretrace why ")[1:]]
    for block in blocks:
        command, _, shown = block.partition("\n")
        assert _said(capsys, *command.split()).rstrip("\n") == shown
    assert len(blocks) == 1


def test_look_takes_no_record_of_the_compiler_for_a_trace(tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(DATA / "mlp", tmp_path / "run.why")
    (tmp_path / "run.why" / "trace.json.gz").rename(tmp_path / "run.json.gz")
    assert main(["look", str(tmp_path), "--strict"]) == main(
        ["look", str(tmp_path / "run.json.gz")]
    )
    assert main(["look", str(DATA / "mlp")]) == 0
    assert "left out" not in capsys.readouterr().err
