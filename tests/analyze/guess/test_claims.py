"""The claims of the articles: who says what, and what may be concluded from a miss.

`tests/learn/ladder/test_climb.py` marks every one on what an H200 recorded.
"""

from __future__ import annotations

import pytest

from foretrace.base.errors import UsageError
from foretrace.learn.claims import (
    ARTICLES,
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    NOT_SAID,
    OTHER_CARD,
    OUTCOMES,
    SECTIONS,
    Claim,
    ClaimPrediction,
    claims,
    find,
    programs,
)

PREDICTIONS = [(claim, each) for claim in claims() for each in claim.predictions]
# The claims that no recorded trace decides: each says what does.
NOT_IN_A_TRACE = {
    *(f"B{number}" for number in (11, 12, 40, 41, 46, 47, 49, 52, 53, 54, 55, 67)),
    *(f"E{number}" for number in (3, 5, 8, 9, 10, 11, 12, 14, 16, 17, 19, 20, 21, 22, 23)),
    *("E25", "E27", "E28"),
}
# Every claim that does not hold: the source says exactly this, on its own program.
FAILING = {"B15", "B24", "B59", "E4", "E6", "E26"}
STATED_FAILING = {"B12", "B40", "B47", "B67", "E11", "E12"}


def _names(pairs: list[tuple[Claim, ClaimPrediction]]) -> list[str]:
    return [f"{claim.number} {prediction.guess}" for claim, prediction in pairs]


def test_every_claim_is_predicted_or_says_what_decides_it() -> None:
    numbers = {claim.number for claim in claims()}
    assert numbers >= {f"B{number}" for number in range(1, 79)}
    assert numbers >= {f"E{number}" for number in range(1, 29)}
    assert len(numbers) == len(claims())
    rest = [claim for claim in claims() if not claim.predictions]
    assert {claim.number for claim in rest} == NOT_IN_A_TRACE
    assert [claim.number for claim in rest if bool(claim.decides) == bool(claim.see)] == []
    assert {claim.see for claim in rest} - {""} <= numbers
    assert {claim.outcome for claim in rest if not claim.see} <= set(OUTCOMES)


def test_every_claim_has_its_sentence_and_its_source() -> None:
    for claim in claims():
        article = claim.source in ARTICLES
        assert article or claim.source == "an H200" or claim.source.startswith("commentar")
        if article:
            assert claim.sentence, claim.number
            assert claim.where, claim.number
            assert claim.address.startswith(ARTICLES[claim.source])
        assert bool(claim.where) <= article


def test_nobody_is_blamed_for_what_they_did_not_write() -> None:
    """Only an article's own unconditional sentence can fail, and only on the article's program."""
    misses = [(claim, each) for claim, each in PREDICTIONS if each.h200 == "miss"]
    failing = [pair for pair in misses if pair[0].judged(pair[1], "miss", "NVIDIA H200") == FAILS]
    assert {claim.number for claim, _ in failing} == FAILING
    assert {claim.number for claim in claims() if claim.outcome == FAILS} == STATED_FAILING
    for claim, _ in failing:
        assert claim.source in ARTICLES
        assert not claim.conditional


def test_another_order_of_evaluation_judges_no_article() -> None:
    """The article computes g, u, then gelu(g) * u; recordings of gelu(gate(x)) * up(x) are H12's."""
    others = {name for name, program in programs().items() if program.setup}
    assert others == {"mlp eager, other order", "mlp compiled, other order", "train_step llama"}
    for claim, prediction in PREDICTIONS:
        used = {program.name for program in (prediction.on, prediction.against) if program}
        assert not (used & others) or claim.source == "an H200"


def test_the_outcome_of_a_prediction() -> None:
    said = Claim("mlp", "B0", "Part 2", "something")
    here = ClaimPrediction(programs()["mlp eager"], "kernels == 1", "")
    there = ClaimPrediction(programs()["mlp eager"], "kernels == 1", "", card=True)
    assert said.judged(here, "hit", "NVIDIA H200") == HOLDS
    assert said.judged(here, "unknown", "NVIDIA H200") == INCONCLUSIVE
    assert said.judged(here, "miss", "NVIDIA H200") == FAILS
    assert said.judged(there, "miss", "NVIDIA H200") == OTHER_CARD
    assert said.judged(there, "miss", "NVIDIA A100-SXM4-80GB") == FAILS
    for other in (
        Claim("mlp", "B0", "commentary 4", "something"),
        Claim("mlp", "B0", "Part 2", "something", conditional=True),
    ):
        assert {other.judged(here, verdict, "NVIDIA H200") for verdict in ("hit", "miss")} == {
            NOT_SAID
        }


def test_a_prediction_that_misses_has_a_correction() -> None:
    wrong = [(claim, each) for claim, each in PREDICTIONS if each.h200 != "hit"]
    assert len(wrong) > 20
    missing = [pair for pair in wrong if not (pair[1].correction or pair[0].correction)]
    assert _names(missing) == []


def test_what_the_commentaries_read_into_tn_is_marked() -> None:
    """`tn`: the trace's strides say which operand is the transposed one."""
    assert {each.h200 for each in find("E13").predictions} == {"miss"}
    assert {each.h200 for each in find("b2").predictions} == {"hit"}
    with pytest.raises(UsageError, match="no claim B99"):
        find("B99")


def test_claims_by_section() -> None:
    assert {claim.section for claim in claims()} == set(SECTIONS)
    rungs = {rung for claim in claims() for rung in claim.rungs}
    assert rungs == {"matmul_add", "linear", "mlp", "attention", "train_step"}
