"""Every claim of the articles that a trace can decide, marked on what an H200 recorded."""

from __future__ import annotations

import pytest

from foretrace.guess import check, parse
from foretrace.guess.claims import SECTIONS, Claim, claims
from guess.conftest import recorded

# The other claims B1 to B78, and why no recorded trace decides them.
NOT_IN_A_TRACE = {
    "B2": "shapes and strides of tensors",
    "B11": "generated code",
    "B12": "what a stride mismatch raises",
    "B40": "recompilations over many shapes",
    "B41": "a question left open",
    "B46": "the source of Liger",
    "B47": "first-call time over many shapes",
    "B49": "needs a strided input",
    "B52": "needs a cold run",
    "B53": "needs a cold and a warm run",
    "B54": "Activity Buffer Request: none recorded",
    "B55": "the same",
    "B67": "files in a cache folder",
}


def _name(claim: Claim) -> str:
    return f"{claim.number} {claim.guess}"


@pytest.mark.parametrize("claim", claims(), ids=_name)
def test_the_claim_fares_as_the_h200_showed(claim: Claim) -> None:
    against = recorded(claim.against) if claim.against else None
    [verdict] = check(recorded(claim.trace), [parse(claim.guess, claim.reason)], against)
    assert verdict.verdict == claim.h200, verdict
    assert verdict.reason == claim.reason


def test_every_claim_is_stated_or_said_to_be_undecidable() -> None:
    stated = {claim.number for claim in claims()}
    numbers = {f"B{number}" for number in range(1, 79)}
    assert numbers - stated == set(NOT_IN_A_TRACE)


def test_a_claim_that_does_not_hold_says_what_is_right() -> None:
    wrong = [claim for claim in claims() if claim.h200 != "hit"]
    assert len(wrong) > 20
    assert [_name(claim) for claim in wrong if not claim.correction] == []


def test_the_rows_of_what_the_h200_showed() -> None:
    """The table of the H200, row by row: the claims that stand for it, and how they fare."""
    rows = {
        "B3": {"hit"},
        "B5": {"hit"},
        "B18": {"hit"},
        "H2": {"miss"},
        "B27": {"hit"},
        "B28": {"hit"},
        "B34": {"hit"},
        "B35": {"hit"},
        "B42": {"miss"},
        "B21": {"miss", "hit"},
        "B57": {"miss", "hit"},
        "B63": {"miss"},
        "B22": {"hit", "miss"},
        "B29": {"hit", "miss"},
        "H11": {"hit"},
    }
    assert {
        number: {claim.h200 for claim in claims() if claim.number == number} for number in rows
    } == rows


def test_claims_by_rung() -> None:
    assert {claim.rung for claim in claims()} == {"matmul_add", "linear", "mlp", "attention"}
    assert {claim.section for claim in claims()} == set(SECTIONS)
