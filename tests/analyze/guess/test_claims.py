"""The claims of the articles: who says what, and what may be concluded from a miss.

`tests/learn/ladder/test_climb.py` marks every one on what an H200 recorded.
"""

from __future__ import annotations

import pytest

from foretrace.analyze.compare.sentences import published
from foretrace.base.errors import UsageError
from foretrace.learn.claims import (
    ARTICLES,
    FAILS,
    HOLDS,
    IMPRECISE,
    INCONCLUSIVE,
    ON_A100,
    OUTCOMES,
    SAID_BY,
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
    *(f"B{number}" for number in (11, 12, 40, 41, 46, 47, 52, 53, 54, 55, 67)),
    *(f"E{number}" for number in (3, 5, 8, 9, 10, 11, 12, 14, 16, 17, 19, 20, 21, 22, 23)),
    *("E25", "E27", "E28", "H13"),
}
# Every claim that does not hold: the source says exactly this, on its own program.
FAILING = {"B15", "B59", "E4", "E6", "E26"}
STATED_FAILING = {"B12", "B40", "B47", "B67", "E11"}
COMMENTARIES_FAILING = {"E1", "E2", "E3", "E7", "E13"}


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
    """What fails is the text that said it: an article, or one that comments on it."""
    misses = [(claim, each) for claim, each in PREDICTIONS if each.h200 == "miss"]
    failing = [claim for claim, each in misses if each.judged("miss", "NVIDIA H200") == FAILS]
    failing += [claim for claim in claims() if claim.outcome == FAILS]
    said = {who: {claim.number for claim in failing if claim.said_by == who} for who in SAID_BY}
    assert said["articles"] == FAILING | STATED_FAILING
    assert said["commentaries"] == COMMENTARIES_FAILING
    assert said["foretrace"] == set()


def test_a_loose_sentence_is_imprecise() -> None:
    """ "Around six" has no limit, "deeper" two meanings, and a "may" is not refuted."""
    loose = {claim.number for claim, each in PREDICTIONS if each.missed == IMPRECISE}
    stated = {claim.number for claim in claims() if claim.outcome == IMPRECISE}
    assert (loose, stated) == ({"B24"}, {"E12", "E22"})


def test_the_card_is_blamed_for_what_it_decides() -> None:
    """Not for the driver's, the profiler's or cuDNN's part; and their number stands beside ours."""
    other = [
        claim.number
        for claim, each in PREDICTIONS
        if each.judged("miss", "NVIDIA H200") == INCONCLUSIVE
    ]
    assert other == ["B60", "B61", "B77", "B77"]
    differs = [(claim, each) for claim, each in PREDICTIONS if each.card and each.h200 == "miss"]
    assert _names([pair for pair in differs if not pair[1].a100]) == []
    assert published("fused") == "89.4 us for triton_poi_fused__unsafe_view_gelu_mul_0 (Part 2)"
    assert all(published(each.a100) for _, each in PREDICTIONS if each.a100)


def test_another_order_of_evaluation_judges_no_article() -> None:
    """The article computes g, u, then gelu(g) * u; recordings of gelu(gate(x)) * up(x) are H12's.

    B15 is about two runs of one name at equal shapes, and these are the two.
    """
    others = {name for name, program in programs().items() if program.setup}
    assert others == {"mlp eager, other order", "mlp compiled, other order", "train_step llama"}
    for claim, prediction in PREDICTIONS:
        used = {program.name for program in (prediction.on, prediction.against) if program}
        assert not (used & others) or claim.source == "an H200" or claim.number == "B15"


def test_the_outcome_of_a_prediction() -> None:
    here = ClaimPrediction(programs()["mlp eager"], "kernels == 1", "")
    there = ClaimPrediction(programs()["mlp eager"], "kernels == 1", "", card=True)
    assert here.judged("hit", "NVIDIA H200") == HOLDS
    assert here.judged("unknown", "NVIDIA H200") == INCONCLUSIVE
    assert here.judged("miss", "NVIDIA H200") == FAILS
    assert there.judged("miss", "NVIDIA H200") == ON_A100
    assert there.judged("miss", "NVIDIA A100-SXM4-80GB") == FAILS
    assert Claim("mlp", "B0", "commentary 4", "something").said_by == "commentaries"


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
    rungs = {each.on.rung for _, each in PREDICTIONS}
    assert rungs == {"matmul_add", "linear", "mlp", "attention", "train_step"}
