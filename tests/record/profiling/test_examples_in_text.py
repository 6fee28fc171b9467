"""The Python that README.md and docs/capture.md print runs as it is printed."""

from __future__ import annotations

import re
import shutil
import textwrap
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import foretrace  # noqa: E402
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
