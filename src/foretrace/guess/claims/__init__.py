"""The claims of the articles as predictions, one file per section, each with its result on an H200.

A file names its `rung` and has one `[[recording]]` per trace (`variant`, `trace`, and `against` for
the trace called A). A `[[recording.claim]]` has a `number` (B: a claim, E: an error of the
articles, H: a measurement on the H200), its `source`, the `guess`, the `reason`, and, where the
H200 does not show a hit, its verdict `h200` and the `correction`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SECTIONS = ("matmul_add", "linear", "mlp", "compiled", "liger", "attention")


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim; `trace` and `against` are names of recordings of the H200."""

    section: str
    rung: str
    variant: str
    trace: str
    number: str
    source: str
    guess: str
    reason: str
    h200: str = "hit"
    against: str = ""
    correction: str = ""


@cache
def claims() -> tuple[Claim, ...]:
    """Every claim, section by section in the order of the articles."""
    return tuple(claim for section in SECTIONS for claim in _section(section))


def _section(name: str) -> list[Claim]:
    text = files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return [
        Claim(name, document["rung"], **place, **entry)
        for recording in document["recording"]
        for place in [{key: value for key, value in recording.items() if key != "claim"}]
        for entry in recording["claim"]
    ]
