"""What commands say of the recordings is what was frozen; `tools/answers.py` says which, and freezes anew."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "frozen"
_SPEC = importlib.util.spec_from_file_location("answers", ROOT / "tools" / "answers.py")
assert _SPEC
assert _SPEC.loader
answers = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(answers)
FROZEN = answers.frozen()


def _lines(text: str) -> list[str]:
    """Lines of a screen; one line a field where a line of JSON is long."""
    return text.replace(',"', ',\n"').splitlines()


@pytest.mark.parametrize("label", FROZEN)
def test_answers_are_those_that_are_frozen(
    label: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {**answers.SETTINGS, "FORETRACE_CACHE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    changed = []
    for name, text in answers.frozen_answers(label):
        before = answers.frozen_text(FOLDER, name)
        if text != before:
            sides = _lines(before), _lines(text)
            changed += [
                f"{name}:",
                *[*difflib.unified_diff(*sides, "frozen", "now", "", "", 1, "")][2:40],
            ]
    assert not changed, "\n".join([*changed, "If that is meant: make freeze, and read the diff."])


def test_nothing_is_frozen_that_no_command_answers() -> None:
    files = {path for path in FOLDER.glob("*/*") if path.is_file()}
    names = [name for commands in FROZEN.values() for name in commands]
    assert files == {answers.frozen_file(FOLDER, name) for name in names}
