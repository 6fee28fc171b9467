"""The types of the pages' scripts are those of the Structs that Python writes."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_types_are_those_of_the_structs() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "web_types.py"))
    written = tool["FILE"].read_text(encoding="utf-8")
    assert written == tool["document"](), "run: python tools/web_types.py, then make web"
