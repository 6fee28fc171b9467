"""Files of predictions: lines, and TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.base.errors import UsageError
from foretrace.check.files import load


def test_a_line_has_a_prediction_and_perhaps_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "performance.txt"
    path.write_text('# held\n\nkernels == 5     # five ops\n  calls("## Call*") == 1\n', "utf-8")
    assert load(path) == [("kernels == 5", "five ops"), ('calls("## Call*") == 1', "")]


def test_toml_has_the_same(tmp_path: Path) -> None:
    path = tmp_path / "performance.toml"
    path.write_text('[[prediction]]\ntext = "kernels == 5"\nreason = "five ops"\n', "utf-8")
    assert load(path) == [("kernels == 5", "five ops")]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.txt", "# nothing\n", "no prediction in it"),
        ("a.toml", "schema = 1\n", r"no \[\[prediction\]\] in it"),
        ("a.toml", '[[prediction]]\ntex = "kernels == 5"\n', 'prediction 1: write text = "…"'),
        ("a.toml", "[[prediction]]\ntext = 'x'\nresaon = ''\n", "did you mean 'reason'"),
        ("a.toml", "kernels == 5\n", "not a file of predictions"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    name: str, text: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=problem):
        load(path)
