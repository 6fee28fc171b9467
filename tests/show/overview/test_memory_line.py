"""The line MEMORY of the first screen: from a snapshot beside the trace, else from its events."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

import pytest

import foretrace as ft
from foretrace.cli import main
from foretrace.read.recordings import snapshots

RECORDED = Path(__file__).parents[2] / "recorded"
WITH_EVENTS = RECORDED / "pages" / "how-to-memory" / "traces" / "keeps_outputs.json.gz"


def line(trace: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["look", str(trace)]) == 0
    page = capsys.readouterr().out.splitlines()
    assert len(page) <= 25
    return " ".join(" ".join(page).partition("MEMORY")[2].partition("GPU per")[0].split())


def test_memory_events_give_the_peak(capsys: pytest.CaptureFixture[str]) -> None:
    found = ft.look(WITH_EVENTS).memory
    assert found is not None
    assert (found.device, found.source, found.parts) == ("GPU 0", "", {})
    table = ft.open(WITH_EVENTS, cache=False).table("memory")
    gpu = table.filter(table["device_type"] == 1)
    assert found.peak_bytes == gpu["total_allocated"].max()
    assert found.reserved_bytes == gpu["total_reserved"].max()
    said = "peak 392.9 MB, reserved 415.2 MB; 307.9 MB were in use when the recording began"
    assert line(WITH_EVENTS, capsys) == said


def test_a_snapshot_beside_the_trace_says_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = Path(shutil.copy(RECORDED / "sgd_fused.json.gz", tmp_path / "run.json.gz"))
    assert ft.look(trace).memory is None
    assert line(trace, capsys) == ""
    content = lzma.decompress(snapshots()["gpt_leak"].read_bytes())
    (tmp_path / "run.memory.pickle").write_bytes(content)
    assert line(trace, capsys).endswith(  # an overview from the cache would have no such line
        "peak 2.38 GB, reserved 2.43 GB: kept 940.7 MB, activations 596.3 MB, optimizer state "
        "335.8 MB (foretrace memory run.memory.pickle)"
    )
    (tmp_path / "run.memory.pickle").write_bytes(b"\x80\x04")
    assert line(trace, capsys) == ""
