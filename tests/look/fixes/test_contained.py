"""A fix that the first one already does is not the second order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from foretrace.look.fixes import FixPrediction, Predicted, Proposal
from foretrace.trace.replay import GraphChange

LENGTHS = {1: 10.0, 2: 10.0, 3: 10.0, 4: 70.0}


def prediction(gone: set[int], length: dict[int, float]) -> FixPrediction:
    change = GraphChange(length=length, gone=frozenset(gone))
    return FixPrediction("it", Proposal("do it", "since", change), 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("first", "then", "contained"),
    [
        (({1, 2}, {3: 5.0}), ({1}, {3: 2.0}), True),  # fused already
        (({1, 2}, {3: 5.0}), ({1}, {4: 9.0}), False),  # most of it is other work
        ((set(), {3: 5.0}), (set(), {3: 2.0}), False),  # faster, and not fused
        (({1, 2}, {3: 5.0}), (set(), {}), False),  # host work alone
    ],
)
def test_kernels_that_are_fused_are_not_fused_again(first: Any, then: Any, contained: bool) -> None:
    step: Any = SimpleNamespace(ns=lambda rows: sum(LENGTHS[row] for row in rows))
    found = Predicted(step, 0, 0, 0, 0, 0, [], [], frozenset())
    assert found.contains(prediction(*first), prediction(*then)) is contained
