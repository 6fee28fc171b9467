"""Predictions of the step without the profiler."""

from __future__ import annotations

import pytest

import foretrace as ft
from foretrace.analyze import fixes
from foretrace.analyze.fixes import Predicted
from foretrace.analyze.fixes._step import Step
from foretrace.analyze.guess import check, parse
from foretrace.read.recordings import traces

TEXTS = ("predicted step < 1 s", "predicted step > 1 s", "predicted step < 1 s after nothing_known")


def test_all_predictions_share_one_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: list[Step] = []

    def predict(step: Step, *times: float) -> Predicted:
        replayed.append(step)
        return fixes.predict(step, *times)

    monkeypatch.setattr("foretrace.analyze.fixes.predict", predict)
    found = check(ft.open(traces()["mlp_eager"], cache=False), [parse(text) for text in TEXTS])
    assert [each.verdict for each in found] == ["hit", "miss", "unknown"]
    assert "nothing_known does not apply" in found[2].why
    assert len(replayed) == 1
