"""Every kind of prediction on the odd and broken traces: marked, never a traceback, and never a hit
out of nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import foretrace as ft
from analyze.guess.conftest import TEXTS
from corpus.cases import Case
from corpus.odd_files import SMALL as ODD_FILES
from foretrace.analyze.guess import Guess, check, parse
from foretrace.analyze.guess.baseline import write
from foretrace.analyze.guess.questions import questions
from foretrace.analyze.guess.snapshots import from_text, kernels, to_text
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.schema.finding import VERDICTS
from sweep import part

SMALL = part(ODD_FILES)


@cache
def guesses() -> list[Guess]:
    return [parse(text) for text in TEXTS]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.id)
def test_every_example(case: Case, tmp_path: Path) -> None:
    trace = ft.open(case.put(tmp_path), cache=False, limits=Limits(**case.limits))
    verdicts = check(trace, guesses(), trace)
    assert {verdict.verdict for verdict in verdicts} <= set(VERDICTS)
    assert all(verdict.why for verdict in verdicts if verdict.verdict == "unknown")
    if not trace.has("gpu"):
        hits = [
            guess
            for guess, verdict in zip(guesses(), verdicts, strict=True)
            if verdict.verdict == "hit"
        ]
        assert [
            guess.text for guess in hits if getattr(guess.args.get("what"), "on_gpu", False)
        ] == []
    if trace.ledger.gap:
        with pytest.raises(TraceError, match="E_NOT_WHOLE"):
            write(trace)
    else:
        write(trace)
    questions(trace)
    if trace.has("gpu"):
        bag = kernels(trace)
        assert sum(from_text(to_text(bag, "here")).values()) <= sum(bag.values())
