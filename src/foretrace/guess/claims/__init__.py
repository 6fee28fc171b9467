"""The claims of the articles as predictions, one file per section: what was said, where, and what
an H200 then showed.

Each `[[claim]]` has a `number` (B: the claim, E: an error of the articles, H: a row of what the
H200 showed), the `source` that said it, the `rung` and `variant` that decide it, the recorded
`trace` (and `against`), the `guess`, its `reason`, the verdict on an H200 (`h200`), and where the
article is wrong or the card differs, the `correction`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Claim:
    """One prediction of the articles; `trace` and `against` are recordings under
    `foretrace.recordings`, card `h200`.
    """

    section: str
    number: str
    source: str
    rung: str
    variant: str
    trace: str
    guess: str
    reason: str
    h200: str
    against: str = ""
    correction: str = ""


@cache
def claims() -> tuple[Claim, ...]:
    """Every claim, section by section in the order of the articles."""
    found = []
    for section in SECTIONS:
        text = files(__name__).joinpath(f"{section}.toml").read_text(encoding="utf-8")
        found += [Claim(section=section, **entry) for entry in tomllib.loads(text)["claim"]]
    return tuple(found)


def of_rung(rung: str) -> tuple[Claim, ...]:
    """The claims that one rung of the ladder decides."""
    return tuple(claim for claim in claims() if claim.rung == rung)


SECTIONS = ("matmul_add", "linear", "mlp", "compiled", "liger", "attention")
