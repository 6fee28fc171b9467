"""The claims of the articles as predictions, one file per section, each with its result on an H200.

A `[[claim]]` has its `number` (B: a claim, E: a loose or wrong sentence, H: a measurement on the
H200), the `source` that states it, the heading it is under (`where`), its `sentence`, and in our
words the `claim`. A `[[claim.prediction]]` judges it `on` a program of `programs.toml`, perhaps
`against` another; `h200` is its verdict where that is no hit, explained by the `correction`.
`card` marks what the card decides: a name, a time, a tile, registers. `missed` is the outcome of a
miss, `a100` the number that the articles print (`compare/articles`). A claim without a
prediction says what `decides` it, or which other to `see`, whose sentence it has unless it brings
its own.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from foretrace.base.errors import UsageError

SECTIONS = ("matmul_add", "linear", "mlp", "compiled", "liger", "attention", "errors", "found")
OUTCOMES = ("holds", "does not hold", "holds on the A100", "imprecise", "inconclusive")
HOLDS, FAILS, ON_A100, IMPRECISE, INCONCLUSIVE = OUTCOMES
SAID_BY = ("articles", "commentaries", "foretrace")
CARD = "A100"  # all measurements of the articles are of one A100-SXM4-80GB
ARTICLES = {
    "Part 1": "https://huggingface.co/blog/torch-profiler",
    "Part 2": "https://huggingface.co/blog/torch-mlp-fusion",
    "Part 3": "https://huggingface.co/blog/torch-attention-profile",
}


@dataclass(frozen=True, slots=True)
class ClaimProgram:
    """What ran: the name of a recording of the H200, and the code of one step."""

    name: str
    trace: str
    code: str
    setup: str = ""

    @property
    def rung(self) -> str:
        """The rung that it belongs to."""
        return self.name.split()[0]


@dataclass(frozen=True, slots=True)
class ClaimPrediction:
    """One prediction that a claim makes."""

    on: ClaimProgram
    guess: str
    reason: str
    against: ClaimProgram | None = None
    card: bool = False
    missed: str = FAILS
    a100: str = ""
    h200: str = "hit"
    correction: str = ""

    def judged(self, verdict: str, device: str) -> str:
        """The outcome with this verdict, measured on this device."""
        if verdict != "miss":
            return {"hit": HOLDS}.get(verdict, INCONCLUSIVE)
        return ON_A100 if self.card and CARD not in device else self.missed


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: who states it, where and how, and the predictions that judge it."""

    section: str
    number: str
    source: str
    claim: str
    sentence: str = ""
    where: str = ""
    predictions: tuple[ClaimPrediction, ...] = ()
    correction: str = ""
    decides: str = ""
    stated: str = ""
    see: str = ""

    @property
    def said_by(self) -> str:
        """Who says it: texts that comment on the articles are counted apart from them."""
        articles, commentaries, ours = SAID_BY
        if self.source.startswith("commentar"):
            return commentaries
        return articles if self.source in ARTICLES else ours

    @property
    def outcome(self) -> str:
        """The outcome of a claim that no trace decides; empty where another has it."""
        return "" if self.see else self.stated or INCONCLUSIVE

    @property
    def address(self) -> str:
        """The article's section on the web; empty for other sources."""
        heading = re.sub(r"[^\w\s-]", "", self.where.lower()).replace(" ", "-")
        return f"{ARTICLES[self.source]}#{heading}" if self.where else ""


@cache
def claims() -> tuple[Claim, ...]:
    """Every claim, section by section in the order of the articles."""
    read = [_claim(section, **each) for section in SECTIONS for each in _read(section)["claim"]]
    found = {claim.number: claim for claim in read}
    for claim in read:
        if not claim.sentence:
            other = found.get(claim.see, claim)
            found[claim.number] = replace(claim, sentence=other.sentence, where=other.where)
    return tuple(found.values())


def find(number: str) -> Claim:
    """The claim of that number; an unknown one is wrong usage."""
    known = {claim.number: claim for claim in claims()}
    if number.upper() not in known:
        raise UsageError(f"no claim {number}: `foretrace docs claims` lists them")
    return known[number.upper()]


@cache
def programs() -> dict[str, ClaimProgram]:
    """Every program by its name."""
    return {name: ClaimProgram(name, **entry) for name, entry in _read("programs").items()}


def title(section: str) -> str:
    """The heading of a section."""
    return str(_read(section)["title"])


def _claim(
    section: str, prediction: tuple[Any, ...] = (), outcome: str = "", **entry: Any
) -> Claim:
    found = tuple(_prediction(entry["claim"], **each) for each in prediction)
    return Claim(section, predictions=found, stated=outcome, **entry)


def _prediction(claim: str, on: str, against: str = "", **entry: Any) -> ClaimPrediction:
    other = programs()[against] if against else None
    return ClaimPrediction(programs()[on], against=other, **{"reason": claim, **entry})


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
