"""`foretrace try`: requests that cannot be met, and one whole run."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

pytest.importorskip("torch")
from foretrace.cli import main
from foretrace.read.tried import TryDocument
from record.tries.test_tournament import FACTORS, MadeUp

pytestmark = pytest.mark.torch
SCRIPT = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(1000):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    return "train.py"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("try none.py", "no such script: none.py"),
        ("try .", ". is a folder: give the script in it"),
        ("try none.py:setup", "no such script: none.py"),
        ("try train.py:setup --json", "train.py:setup takes whole numbers, not '--json'"),
        ("try --only tf_32 train.py", "no fix 'tf_32': did you mean tf32?"),
        ("try --budget soon train.py", "'soon' is no time: write 90s, 10m or 1h"),
        ("try --patch there.patch train.py", "there.patch exists already"),
    ],
)
def test_a_wrong_request_is_one_line(
    words: str, message: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("there.patch").touch()
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"foretrace: {message}")
    assert said.count("\n") == 1


def test_one_process_of_several_is_refused(
    script: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert main(["try", script]) == 2
    assert "WORLD_SIZE" in capsys.readouterr().err


class Made(MadeUp):
    """The processes of one command."""

    def __init__(self, folder: Path, child: str) -> None:
        super().__init__(folder, {})

    def __enter__(self) -> Made:
        return self

    def __exit__(self, *problem: object) -> None:
        pass


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_a_whole_run(
    real: bool, script: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_real.py` runs the processes, `test_tournament.py` the rounds."""
    if not real:
        monkeypatch.setattr("foretrace.record.tries.rounds.Processes", Made)
        monkeypatch.setitem(FACTORS, "fused_optimizer", (1.5, 0.0))
    words = ["--only", "fused_optimizer", "--steps", "2", "--rounds", "3", "--json"]
    assert main(["try", *words, script]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, msgspec.json.schema(TryDocument))
    assert document["found_by"] == "optimizer.step"
    assert document["baseline"]["median_ns"] > 0
    [row] = [each for each in document["fixes"] if each["name"] == "fused_optimizer"]
    assert row["state"] in ("kept", "no gain")
    assert row["same"] is True
    assert Path(script).read_text() == SCRIPT
