"""`foretrace lab ladder --json`: every claim of the articles, marked, and the table of setups."""

from __future__ import annotations

from msgspec import Struct


class MarkedClaim(Struct, frozen=True):
    """One prediction of a claim, with its verdict and the outcome.

    `setup` states the sizes, `recording` a trace of the package, `program` the code that ran.
    `against` is the setup that a prediction calls A.
    `sentence` is what the `source` says under the heading `where`, in substance for a commentary.
    `outcome` is `holds`, `does not hold`, `holds on the A100`, `imprecise` or `inconclusive`.
    `said_by` is `articles`, `commentaries` or `foretrace`; `published` what the articles print, of
    their A100, where they print a number or a name.
    """

    number: str
    source: str
    rung: str
    variant: str
    setup: str
    recording: str
    guess: str
    verdict: str
    measured: str
    expected: str
    why: str
    reason: str
    correction: str
    outcome: str
    claim: str
    sentence: str
    where: str
    address: str
    program: str
    against: str
    said_by: str
    published: str


class UnmarkedClaim(Struct, frozen=True):
    """A claim that a trace of one setup does not decide: `decides` says what does.

    `see` is the number of a claim that says the same; `outcome` is then empty.
    """

    number: str
    source: str
    outcome: str
    claim: str
    sentence: str
    where: str
    address: str
    decides: str
    see: str
    said_by: str


class ClaimCounts(Struct, frozen=True):
    """How many claims have each verdict."""

    hit: int
    miss: int
    unknown: int


class SkippedSetup(Struct, frozen=True):
    """A setup that could not run, and why."""

    setup: str
    why: str


class SetupRow(Struct, frozen=True):
    """One row of the article's table: a sentence for each thing that changed or stayed the same."""

    setup: str
    changed: list[str]
    same: list[str]


class LadderDocument(Struct, frozen=True):
    """What a climb found. `source` is `recorded h200` or `this machine`.

    `outcomes` counts the articles' predictions, `commentaries` and `found` those of others.
    """

    schema: int
    source: str
    device: str
    torch: str
    claims: list[MarkedClaim]
    counts: ClaimCounts
    skipped: list[SkippedSetup]
    article: list[SetupRow]
    outcomes: dict[str, int]
    unmarked: list[UnmarkedClaim] = []
    commentaries: dict[str, int] = {}
    found: dict[str, int] = {}


DOCUMENTS = {"ladder": LadderDocument}
