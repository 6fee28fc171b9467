"""The Python that README.md and docs/capture.md print runs as it is printed."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import foretrace  # noqa: E402
from foretrace.cli import main  # noqa: E402
from foretrace.read import recordings  # noqa: E402

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[3]


def of_readme() -> str:
    """The indented block under "In Python:"."""
    after = (ROOT / "README.md").read_text(encoding="utf-8").split("\nIn Python:\n\n")[1]
    lines = after.splitlines()
    end = next(number for number, line in enumerate(lines) if line and not line.startswith("    "))
    return textwrap.dedent("\n".join(lines[:end]))


def of_docs() -> str:
    return "\n".join(
        re.findall(
            r"^```python\n(.*?)^```",
            (ROOT / "docs/capture.md").read_text(encoding="utf-8"),
            re.S | re.M,
        )
    )


@pytest.mark.parametrize(
    ("text", "written"), [(of_readme(), "run"), (of_docs(), "run"), (of_docs(), "model")]
)
def test_what_the_text_prints_runs(
    text: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(recordings.traces()["mlp_eager"], "trace.json.gz")
    model, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
    around = {
        "foretrace": foretrace,
        "torch": torch,
        "model": model,
        "x": x,
        "batches": [x] * 8,
        "train": model,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a step too few is a warning
        exec(compile(text, "the text", "exec"), around)
    assert len(foretrace.look(foretrace.open(f"traces/{written}.json.gz")).steps) == 3


def test_record_change_record_compare_as_the_quick_start_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three commands after the install end in a verdict on times without the profiler."""
    section = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8").split("## 6. ")[1]
    program = section.split("```python\n")[1].split("```")[0].replace("256", "32")  # a fast step
    commands = re.findall(r"^    foretrace (.+)$", section, re.MULTILINE)
    assert [words.split()[0] for words in commands] == ["record", "record", "compare"]
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    without = "".join(line for line in program.splitlines(True) if "set_detect_anomaly" not in line)
    try:
        for text, words in zip((program, without, without), commands, strict=True):
            script.write_text(text)
            assert main([*words.split(), *(["--json"] if words.startswith("compare") else [])]) == 0
            said = capsys.readouterr()
            if words.startswith("record"):
                torch.autograd.set_detect_anomaly(False)
                assert "next: " in said.err
    finally:
        torch.autograd.set_detect_anomaly(False)
    found = json.loads(said.out)
    assert found["verdict"]["basis"] == "run records"
    assert found["verdict"]["answer"] in ("faster", "inconclusive")  # the machine may be busy
    assert found["bare_wall_ns"]["noise"] is not None
