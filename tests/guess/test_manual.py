"""The manual is written from the code."""

from __future__ import annotations

from pathlib import Path

from foretrace.guess.fields import described
from foretrace.guess.manual import page
from foretrace.guess.marking import kinds
from foretrace.guess.reason import every
from foretrace.guess.slots import SLOTS

PAGE = Path(__file__).parents[2] / "docs" / "guess.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m foretrace.guess.manual > docs/guess.md"
    )


def test_the_page_holds_the_whole_vocabulary() -> None:
    text = page()
    for words in (
        SLOTS,
        [field.name for field in described()],
        [kind.name for kind in kinds()],
        [example for kind in kinds() for example in kind.examples],
        [reason.example for reason in every()],
    ):
        assert [word for word in words if word.lower() not in text.lower()] == []
