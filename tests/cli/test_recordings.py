"""`foretrace recordings`: every name it lists opens."""

from __future__ import annotations

import pytest

from foretrace import recordings
from foretrace.cli import main


def test_the_first_screen_counts_every_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recordings"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 25
    assert all(f"  {name} " in text for name in recordings.traces())
    assert f"and {len(recordings.ladder())} of the ladder: matmul_add " in text


def test_a_word_lists_those_of_the_ladder_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recordings", "linear_eager"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert listed == [
        "linear_eager", "linear_eager_stack",
        "linear_eager_1024x32x64_bf16", "linear_eager_8x32x64x128_bf16",
    ]  # fmt: skip
    assert main(["recordings", "zzz"]) == 2
    assert "no recording has 'zzz'" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*recordings.traces(), *recordings.ladder()])
def test_every_name_finds_its_recording(name: str) -> None:
    path = recordings.find(name)
    assert path is not None
    assert path.name == f"{name}.json.gz"
