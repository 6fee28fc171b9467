"""`look REPLAY --captures FOLDER`: the folder is found or given, and a bad one costs nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from shutil import copy

import pytest

from foretrace.cli import main
from foretrace.read import captures

OWN = Path(__file__).parents[1] / "recorded"
REPLAY, CAPTURE = OWN / "graph_replay.json.gz", OWN / "graph_capture.json.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "given").mkdir()
    return tmp_path / "given"


def look(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, list[str]]:
    """The notes on captures, by code; the replay must be read whatever lies beside it."""
    assert main(["look", str(REPLAY), "--json", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert document["totals"]["kernels"] == 5236
    found: dict[str, list[str]] = {}
    for note in document["ledger"]["notes"]:
        if note["code"].startswith("capture"):
            found.setdefault(note["code"], []).append(note["text"])
    return found


def test_what_is_given_and_what_of_it_is_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look(capsys) == {}
    linked = "3,789 of 3,789 replayed GPU events have the op of their graph's capture"
    assert look(capsys, "--captures", CAPTURE) == {"captured": [linked]}

    whole, damaged = CAPTURE.read_bytes(), tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "cut.json.gz").write_bytes(whole[: len(whole) // 40])
    (damaged / "empty.json").write_bytes(b"")
    (damaged / "other.json").write_text("[1, 2]")
    copy(CAPTURE, damaged)
    found = look(capsys, "--captures", damaged)
    assert found["captured"] == [linked]
    lines = found["capture_left_out"]
    assert [line.partition(":")[0] for line in lines] == ["cut.json.gz", "empty.json", "other.json"]

    another = tmp_path / "another"
    another.mkdir()
    copy(OWN / "graph_capture_in_steps.json.gz", another)
    copy(OWN / "linear_float32.json.gz", another)
    found = look(capsys, "--captures", another)
    mismatch = "3,789 of 3,789 replayed GPU events fit no capture of their graph"
    assert found["capture_mismatch"] == [f"{mismatch}: their ops are unknown"]
    assert found["capture_left_out"] == [
        "graph_capture_in_steps.json.gz: its graphs have 3 nodes, the replay has 421",
        "linear_float32.json.gz: no graph is captured in it",
    ]

    empty = tmp_path / "given"
    empty.mkdir()
    nothing = {"capture_left_out": ["given holds no trace"]}
    assert look(capsys, "--captures", empty) == nothing
    (empty / "graph_replay.json.gz").symlink_to(REPLAY)  # the replay itself is none
    assert look(capsys, "--captures", empty) == nothing
    (empty / "graph_replay.json.gz").unlink()
    copy(REPLAY, empty)
    found = look(capsys, "--captures", empty)
    assert found["capture_left_out"] == ["graph_replay.json.gz: no graph is captured in it"]

    monkeypatch.setattr(captures, "MOST", 3)
    many = tmp_path / "many"
    many.mkdir()
    for at in range(30):
        (many / f"{at:04}.json").write_text("{}")
    found = look(capsys, "--captures", many)
    assert len(found["capture_left_out"]) == 4
    assert found["capture_left_out"][-1] == "27 more files are not read"


def test_another_batch_size(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    document = json.loads(gzip.decompress(CAPTURE.read_bytes()))
    label = next(each for each in document["traceEvents"] if each["name"] == "capture bs=8")
    inside = [
        each
        for each in document["traceEvents"]
        if each["ph"] == "M" or label["ts"] <= each.get("ts", 0) <= label["ts"] + label["dur"]
    ]
    for name, stated in (("said.json", "capture bs=8"), ("silent.json", "capture")):
        label["name"] = stated
        (folder / name).write_text(json.dumps({**document, "traceEvents": inside}))
        found = look(capsys, "--captures", folder / name)
        linked = "1,263 of 3,789 replayed GPU events have the op of their graph's capture"
        assert found["captured"] == [linked]
        assert len(found["capture_mismatch"]) == 1


def test_a_trace_without_graphs(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    plain = OWN / "linear_float32.json.gz"
    assert main(["look", str(plain), "--json", "--captures", str(folder)]) == 0
    notes = json.loads(capsys.readouterr().out)["ledger"]["notes"]
    texts = [note["text"] for note in notes if note["code"] == "capture_left_out"]
    assert texts == ["given is not needed: no graph is replayed here"]


def test_the_cache_knows_the_captures(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretrace.read.cache.WORTHWHILE_BYTES", 1)
    for _ in range(2):
        assert look(capsys) == {}
        assert "captured" in look(capsys, "--captures", CAPTURE)
    copy(OWN / "graph_capture_in_steps.json.gz", folder)
    assert "capture_mismatch" in look(capsys, "--captures", folder)
    copy(CAPTURE, folder)
    assert "captured" in look(capsys, "--captures", folder)


@pytest.mark.parametrize("name", ["capture_traces", "graph_capture_profile"])
def test_a_folder_with_captures_is_one_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    copy(REPLAY, tmp_path)
    copy(CAPTURE, tmp_path / name)
    assert main(["look", str(tmp_path), "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["ledger"]["notes"]
    assert "captured" in {note["code"] for note in notes}


def test_sizes_and_ranks_choose_the_files(tmp_path: Path) -> None:
    names = [f"bs_{size}_rank{rank}.json.gz" for size in (1, 8, 16) for rank in (0, 1)]
    for name in (*names, "graph_capture_rank_0.17.pt.trace.json.gz"):
        (tmp_path / name).touch()
    details = [{"file": "graph_capture_rank_0.17.pt.trace.json.gz", "batch_size": 24}]
    (tmp_path / captures.DETAILS).write_text(json.dumps(details))
    found = captures.files(str(tmp_path))
    chosen = [Path(file.path).name for file in captures.chosen(found, [5, 20], 0)]
    assert chosen == ["bs_8_rank0.json.gz", "graph_capture_rank_0.17.pt.trace.json.gz"]
    assert len(captures.chosen(found, [None], 0)) == 4
    assert captures.beside(str(tmp_path / "replay.json.gz")) == found
