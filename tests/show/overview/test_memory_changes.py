"""`foretrace memory A B`: what changed between two snapshots of an H200."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from foretrace.cli import main
from foretrace.read.snapshot import read_snapshot
from foretrace.schema.documents.memory import MemoryDocument
from foretrace.show.overview.allocator import memory_changes, memory_document

TRAIN = str(Path(__file__).parents[2] / "recorded" / "memory" / "train.pickle.xz")
LEAK = "gpt_leak"


@pytest.fixture(scope="module")
def train() -> MemoryDocument:
    return memory_document(read_snapshot(TRAIN))


def test_a_snapshot_against_itself(train: MemoryDocument) -> None:
    found = memory_changes(train, train)
    assert found.verdict == "the same peak, 1.70 GB to 1.70 GB"
    assert {each.change for each in (*found.categories, *found.lines)} == {"same"}


def test_lines_that_came_went_and_moved(train: MemoryDocument) -> None:
    device = train.device
    first = next(line for line in device.lines if line.line.startswith("modeling"))
    second = next(line for line in device.lines if line.line.startswith("loss_utils"))
    file, _, function = second.line.partition(" in ")
    moved = replace(second, line=f"{file.split(':')[0]}:999 in {function}")
    lines = [line for line in device.lines if line not in (first, second)]
    other = replace(train, device=replace(device, lines=[*lines, moved]))
    found = {each.name: each for each in memory_changes(train, other).lines}
    assert found[first.line].change == "gone"
    assert found[moved.line].change == "same"
    assert (found[moved.line].a_bytes, found[moved.line].b_bytes) == (second.bytes, second.bytes)
    back = {each.name: each.change for each in memory_changes(other, train).lines}
    assert back[first.line] == "new"


def test_the_command_says_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", TRAIN, LEAK]) == 0
    page = capsys.readouterr().out.splitlines()
    assert page[1].startswith("VERDICT  the peak rose by 39.4%, 1.70 GB to 2.38 GB")
    assert "B grows from step to step" in " ".join(" ".join(page).split())
    assert len(page) <= 25
    assert main(["memory", LEAK, TRAIN, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["a_growth_bytes"] > 0
    assert found["b_growth_bytes"] == 0
    assert found["verdict"].endswith("; B no longer grows")
    assert main(["memory", LEAK, TRAIN, "--html", "page.html"]) == 2
