"""Predictions drawn at random on shipped recordings; the truth is that of a reader of its own.

`benchmarks/expressions.py` draws them on any recordings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from check.test_screen import SHIPPED
from drawn_expressions import drawn
from foretrace.check import check
from opened_traces import opened

SMALL = [path for path in SHIPPED if path.stat().st_size < 60_000]


@pytest.mark.sweep(12)
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name.partition(".")[0])
def test_what_is_decided_is_true(path: Path) -> None:
    predictions = drawn(path.read_bytes(), 1, 12)
    verdicts = check(opened(path), [one.text for one in predictions])
    wrong = [
        f"{one.text}: {verdict.verdict} ({verdict.measured} {verdict.why}); the truth: {one.truth}"
        for one, verdict in zip(predictions, verdicts, strict=True)
        if verdict.verdict not in ("unknown", "hit" if one.holds else "miss")
    ]
    assert len(predictions) >= 6
    assert not wrong, "\n".join(wrong)
