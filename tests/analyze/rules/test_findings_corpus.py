"""Odd and broken traces: no rule fails on them, and the page can be drawn from whatever was kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace as ft
from corpus.all_cases import OPENING
from corpus.cases import Case
from foretrace.base.budget import Limits
from foretrace.show.overview import summarize
from foretrace.show.render.look_page import sections
from foretrace.show.render.terminal import drawn, marked
from sweep import part

PARTS = ("regions", "steps", "kernels", "ops", "findings")
# large ones are made when used
SMALL = part([case for case in OPENING if isinstance(case.content, bytes) and not case.needs])


@pytest.mark.parametrize("case", SMALL, ids=lambda case: f"{case.id}-{case.name}")
def test_no_rule_fails(case: Case, tmp_path: Path) -> None:
    found = summarize(ft.open(case.put(tmp_path), cache=False, limits=Limits(**case.limits)))
    assert [row for row in found.look.findings if row.state == "crashed"] == []
    page = sections(found, PARTS, 20)
    text = drawn(page)
    assert max(map(len, text.split("\n"))) <= 100
    assert text.replace("\n", "").isprintable()
    assert marked(page)
