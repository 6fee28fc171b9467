"""`foretrace recordings`: every name it lists opens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import foretrace
from foretrace import TraceError
from foretrace.cli import main
from foretrace.read import recordings


def test_the_first_screen_counts_every_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recordings"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 25
    listed = recordings.traces() | recordings.decoding()
    assert all(f"  {name} " in text for name in listed)
    assert f"and {len(recordings.ladder())} of the ladder: matmul_add " in text
    assert "mlp_eager: down(gelu(gate(x)) * up(x)), another order than the articles'" in text


def test_a_word_lists_those_of_the_ladder_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recordings", "linear_eager"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert listed == [
        "linear_eager", "linear_eager_stack",
        "linear_eager_1024x32x64_bf16", "linear_eager_8x32x64x128_bf16",
    ]  # fmt: skip
    assert main(["recordings", "zzz"]) == 2
    assert "no recording has 'zzz'" in capsys.readouterr().err


@pytest.mark.parametrize("name", recordings.traces() | recordings.ladder() | recordings.decoding())
def test_every_name_finds_its_recording(name: str) -> None:
    path = recordings.find(name)
    assert path is not None
    assert path.name == f"{name}.json.gz"
    assert recordings.opened_as(name) == str(path)


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(foretrace.open("mlp_eager", cache=False).kernels) == 15
    shutil.copy(recordings.traces()["linear_eager"], "mlp_eager")
    assert len(foretrace.open("mlp_eager", cache=False).kernels) == 3


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        (["look", "mlp_eagr"], "mlp_eager"),
        (["compare", "mlp_eager", "mlp_compild"], "mlp_compiled"),
        (["report", "mlp_eager.json.gz", "-o", "nothing.html"], "mlp_eager"),
        (["serve", "linear_egaer"], "linear_eager"),
    ],
)
def test_an_unknown_name_gets_the_nearest(
    command: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 3
    said = capsys.readouterr().err
    assert f"no such recording [E_UNREADABLE]; did you mean {wrong}? `foretrace" in said
    assert said.count("\n") == 1


def test_the_start_of_several_files_is_no_wrong_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TraceError, match="did you mean mlp_eager"):
        recordings.opened_as("mlp_eage")
    (tmp_path / "mlp_eage.why").mkdir()  # as `foretrace record --why -o` leaves them
    assert recordings.opened_as("mlp_eage") == "mlp_eage"
