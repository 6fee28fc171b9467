"""docs/guess.md is written from the code."""

from __future__ import annotations

import runpy
from pathlib import Path

from analyze.guess.conftest import TEXTS
from foretrace.analyze.guess import kinds, reasons
from foretrace.analyze.guess.fields import described

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guess.md").read_text(encoding="utf-8")


TOOL = runpy.run_path(str(ROOT / "tools" / "guess_page.py"))


def test_the_page_is_fresh() -> None:
    assert TOOL["page"]() == PAGE, "run: python tools/guess_page.py"


def test_the_page_holds_the_whole_vocabulary() -> None:
    for words in (
        TOOL["all_slots"](),
        [field.name for field in described()],
        [kind.name for kind in kinds.every()],
        TEXTS,
        [reason.example for reason in reasons.every()],
    ):
        assert [word for word in words if word.lower() not in PAGE.lower()] == []
