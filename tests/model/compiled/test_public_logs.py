"""Logs of others, of other versions of torch, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foretrace.analyze import why
from foretrace.show.render.terminal import drawn
from foretrace.show.render.why_page import PARTS, first_screen, sections

FOLDER = Path(os.environ.get("FORETRACE_PUBLIC_TRACES", "none")) / "torch_trace"
LOGS = sorted(FOLDER.glob("*.log*")) if FOLDER.is_dir() else []


@pytest.mark.skipif(not LOGS, reason="FORETRACE_PUBLIC_TRACES names no folder with torch_trace")
@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_public_log_opens(path: Path) -> None:
    found = why.explain(why.load(path))
    assert found.stages
    assert found.kernels
    assert drawn(first_screen(found)).count("\n") < 25
    assert drawn(sections(found, PARTS, 20))
    lost = 1 if "corrupted" in path.name else 0
    assert found.ledger.skipped == lost
