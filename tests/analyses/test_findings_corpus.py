"""Odd and broken traces: no rule fails on them, and the page can be drawn from whatever was kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace as ft
from corpus.all_cases import OPENING
from corpus.cases import Case
from foretrace.look import full_look
from foretrace.render.markdown import look_text as look_markdown
from foretrace.render.terminal import look_text
from foretrace.sources.limits import Limits

# large ones are made when used
SMALL = [case for case in OPENING if isinstance(case.content, bytes) and not case.needs]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: f"{case.id}-{case.name}")
def test_no_rule_fails(case: Case, tmp_path: Path) -> None:
    document = full_look(ft.open(case.put(tmp_path), cache=False, limits=Limits(**case.limits)))
    assert [row for row in document["look"]["findings"] if row["state"] == "crashed"] == []
    text = look_text(document, 20)
    assert max(map(len, text.split("\n"))) <= 100
    assert text.replace("\n", "").isprintable()
    assert look_markdown(document, 20)
