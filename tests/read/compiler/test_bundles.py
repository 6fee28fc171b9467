"""Which logs a path means, and whether they are of the run that a trace is of."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from foretrace.base.errors import TraceError, UsageError
from foretrace.read import compiler
from foretrace.read.compiler import manifest_of, one_run, stranger
from read.compiler.test_recorded_logs import COMPILE, RUNS, unpacked
from read.compiler.written import message, record

CODE = "triton_poi_fused_gelu_mul_0 = async_compile.triton(...)"
LOG = record({"inductor_output_code": {"filename": "/tmp/c.py"}}, CODE)


def bundle(folder: Path, **manifest: Any) -> Path:
    """A bundle as `foretrace record --why` writes it."""
    folder.mkdir()
    (folder / "torch_trace.log.gz").write_bytes(gzip.compress(LOG))
    (folder / "torch_logs.txt.gz").write_bytes(gzip.compress(message("a")))
    names = ["torch_trace.log.gz", "torch_logs.txt.gz"]
    about = {"kind": "foretrace-why", "schema": 1, "trace": "run.json.gz", "pid": 412}
    text = json.dumps({**about, "files": names, **manifest})
    (folder / "manifest.json").write_text(text)
    return folder


def test_every_path_that_means_a_bundle(tmp_path: Path) -> None:
    found = bundle(tmp_path / "run.why")
    (tmp_path / "run.json.gz").write_bytes(b"")
    (tmp_path / "README.txt").write_text("about these runs")
    for path in ("run.why", "run.json.gz", "run", "."):
        logs = compiler.read(os.path.join(tmp_path, path))
        assert (len(logs.records), len(logs.texts)) == (1, 1)
        assert [os.path.basename(file) for file in logs.sources] == [
            "torch_logs.txt.gz",
            "torch_trace.log.gz",
        ]
    bundle(tmp_path / "second.why")
    with pytest.raises(UsageError, match="the logs of 2 traces"):
        compiler.read(str(tmp_path))
    assert compiler.read(str(found / "torch_trace.log.gz")).records


def test_what_is_not_a_log_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "torch_trace.log").write_bytes(LOG)
    (tmp_path / "torch_trace.log.gz").write_bytes(gzip.compress(LOG))  # the same, packed
    (tmp_path / "job.log").write_bytes(b"started\n" + message("a", prefix="[rank0]:"))
    (tmp_path / "train.log").write_text("loss 0.5\n")
    (tmp_path / "empty.log").touch()
    (tmp_path / "broken.txt.gz").write_bytes(b"\x1f\x8b" + bytes(40))
    (tmp_path / ".hidden.log").write_bytes(LOG)
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "folder.log").mkdir()
    logs = compiler.read(str(tmp_path))
    assert [os.path.basename(file) for file in logs.sources] == ["job.log", "torch_trace.log"]
    assert (len(logs.records), logs.texts[0].rank, logs.ledger.seen) == (1, 0, 2)


def test_the_logs_of_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run.why/torch_trace.log.gz", gzip.compress(LOG))
        archive.writestr("run.why/torch_logs.txt", message("a"))
        archive.writestr("run.why/manifest.json", "{}")
        archive.writestr("notes.txt", "about this run")
    logs = compiler.read(str(path))
    assert (len(logs.records), len(logs.texts), len(logs.sources)) == (1, 1, 2)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("job.out", LOG)
    assert len(compiler.read(str(path)).records) == 1


def test_a_rank_that_only_part_of_the_process_states(tmp_path: Path) -> None:
    early, late = (
        record({"dynamo_start": {}}, pid=7),
        record({"dynamo_start": {}, "rank": 2}, pid=7),
    )
    (tmp_path / "a.log").write_bytes(early + late + record({"dynamo_start": {}}, pid=8))
    (tmp_path / "b.txt").write_bytes(message("x").replace(b" 412 ", b" 7 "))
    (tmp_path / "dedicated_log_torch_trace_rank_5_ab.log").write_bytes(record({"link": {}}, pid=9))
    logs = compiler.read(str(tmp_path))
    assert [(each.pid, each.rank) for each in logs.records] == [(7, 2), (7, 2), (8, None), (9, 5)]
    assert [each.rank for each in logs.texts] == [2]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({}, "contains no log of torch.compile"),
        ({"train.log": b"loss 0.5\n"}, "contains no log of torch.compile"),
    ],
)
def test_a_folder_without_logs(content: dict[str, bytes], what: str, tmp_path: Path) -> None:
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(TraceError) as raised:
        compiler.read(str(tmp_path))
    line = str(raised.value)
    assert what in line
    assert line.endswith("record it with `foretrace record --why`, or with TORCH_TRACE=DIR")


def test_what_a_manifest_says(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "run.why", rank=3, lost=2)
    found = manifest_of(str(folder))
    assert found is not None
    assert (found.pid, found.rank) == (412, 3)
    (folder / "torch_logs.txt.gz").unlink()
    ledger = compiler.read(str(folder)).ledger
    assert (ledger.count("log_file_missing"), ledger.count("log_records_lost")) == (1, 2)
    assert "torch_logs.txt.gz" in ledger.notes[0].text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"kind": "other"}',
        '{"kind": "foretrace-why", "pid": ""}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_a_manifest_of_something_else(text: str, tmp_path: Path) -> None:
    folder = bundle(tmp_path / "run.why")
    (folder / "manifest.json").write_text(text, encoding="latin-1")
    assert manifest_of(str(folder)) is None
    assert len(compiler.read(str(folder)).records) == 1


def test_a_manifest_names_no_file_outside(tmp_path: Path) -> None:
    files = ["../secret.log", "/etc/passwd", "..", "", "a/b.log", "torch_trace.log.gz"]
    found = manifest_of(str(bundle(tmp_path / "run.why", files=files)))
    assert found is not None
    assert found.files == ("torch_trace.log.gz",)


# ---- another run


def traced(name: str) -> tuple[set[int], set[str]]:
    """The process of a recorded trace, and the kernels that Inductor generated."""
    events = json.loads(unpacked(COMPILE / name / "trace.json.gz"))["traceEvents"]
    kernels = {each["name"] for each in events if each.get("cat") == "kernel"}
    pids = {each["pid"] for each in events if each.get("cat") == "cpu_op"}
    return pids, {kernel for kernel in kernels if kernel.startswith("triton_")}


@pytest.mark.parametrize("name", RUNS)
def test_recorded_logs_belong_to_their_trace_alone(name: str) -> None:
    logs = compiler.read(str(COMPILE / name))
    for other in RUNS:
        found = stranger(logs, str(COMPILE / other / "trace.json.gz"), *traced(other))
        assert (found == "") == (name == other)


def test_a_log_of_another_run(tmp_path: Path) -> None:
    logs = compiler.read(str(bundle(tmp_path / "run.why")))
    kernel, trace = {"triton_poi_fused_gelu_mul_0"}, "run.json.gz"
    assert stranger(logs, trace, {412, 0}, kernel) == ""
    assert stranger(logs, trace, {}, {"triton_red_fused_1", "triton_red_fused_2"}) == (
        "the log has no code of triton_red_fused_1 (and 1 more): it is of another run"
    )
    assert stranger(logs, trace, {7}, kernel) == (
        "the log is of process 412, the trace of process 7: two runs"
    )
    assert stranger(logs, trace, {412}, {"triton_red_fused_1"}) == ""  # compiled before
    assert stranger(logs, "renamed.json.gz", {412}, kernel) == ""
    assert stranger(logs, "renamed.json.gz", {}, {}) == "the log belongs to run.json.gz"


# ---- several runs in one folder


def compiled(pid: int, name: str, rank: int | None = None) -> bytes:
    metadata = {"artifact": {"name": name}, "frame_id": 0, "frame_compile_id": 0}
    return record(metadata if rank is None else {**metadata, "rank": rank}, "x", pid)


def test_one_run_of_several(tmp_path: Path) -> None:
    (tmp_path / "dedicated_log_torch_trace_a.log").write_bytes(compiled(7, "a"))
    (tmp_path / "dedicated_log_torch_trace_b.log").write_bytes(compiled(8, "b"))
    logs = compiler.read(str(tmp_path))
    found = one_run(logs, {8, 1})
    assert [each.name for each in found.records] == ["b"]
    assert found.ledger.count("log_processes_left_out") == 1
    with pytest.raises(UsageError, match="the logs of 2 processes that are not ranks"):
        one_run(logs)
