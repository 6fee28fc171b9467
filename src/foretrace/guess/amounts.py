"""Numbers with units, the tolerance they carry, and comparisons that can also answer "cannot be
told".

A number means what its digits say: `38.65 GFLOP` holds for anything that rounds to 38.65,
`5 kernels` for five and nothing else. `+- 10%` or `+- 2 us` widens that; `about` stands for
`+- 10%`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

# what `about` allows: the articles' own rounding ("10% faster" for 9%) is of this size
ABOUT = 0.10

# dimension -> {unit: how much of the base unit it is}. Base units: ns, bytes, FLOP, one, FLOP/s,
# bytes/s.
UNITS: dict[str, dict[str, float]] = {
    "time": {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "bytes": {
        "B": 1,
        "kB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
    },
    "flops": {"FLOP": 1, "kFLOP": 1e3, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15},
    "share": {"%": 0.01},
    "ratio": {"x": 1},
    "rate": {"GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15},
    "bandwidth": {"MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12},
    "count": {"": 1},
}
NUMBER = re.compile(r"(\d{1,15}(?:\.(\d{1,15}))?)(.*)")
COUNTS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


@dataclass(frozen=True, slots=True)
class Amount:
    """`value` in base units; `slack` is how far off still counts as equal."""

    text: str
    value: float
    slack: float = 0.0

    def within(self, share: float | None = None, far: float | None = None) -> Amount:
        """The same amount with a tolerance, as a share of itself or in base units."""
        slack = abs(self.value) * share if share is not None else far or 0.0
        return replace(self, slack=max(slack, self.slack))


@dataclass(frozen=True, slots=True)
class Compare:
    """One of `==`, `!=`, `<`, `<=`, `>`, `>=`, `~`."""

    symbol: str

    def verdict(self, low: float, high: float, amount: Amount) -> str:
        """`hit` when everything between `low` and `high` satisfies it, `miss` when nothing does,
        else `unknown`.
        """
        if self.symbol == "!=":
            return {"hit": "miss", "miss": "hit"}.get(
                Compare("==").verdict(low, high, amount), "unknown"
            )
        wanted = amount.within(share=ABOUT) if self.symbol == "~" else amount
        if self.symbol in ("==", "~"):
            # A hair of room for the arithmetic itself: 0.1 + 0.2 is not a broken prediction.
            least, most = (
                wanted.value - wanted.slack * (1 + 1e-9),
                wanted.value + wanted.slack * (1 + 1e-9),
            )
            return (
                "hit"
                if least <= low and high <= most
                else "miss"
                if high < least or low > most
                else "unknown"
            )
        answers = {self._holds(low, wanted.value), self._holds(high, wanted.value)}
        return "unknown" if len(answers) == 2 else "hit" if answers.pop() else "miss"

    def _holds(self, value: float, limit: float) -> bool:
        return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}[
            self.symbol
        ]


def read_amount(text: str, unit: str, dimension: str) -> Amount | None:
    """`38.65` with `GFLOP` -> an amount that is as precise as it is written; None when it is none."""
    found = NUMBER.fullmatch(text)
    factor = UNITS[dimension].get(unit) if found and not found[3] else None
    if found is None or factor is None:
        return None
    digits = len(found[2] or "")
    slack = 0.0 if dimension == "count" else 0.5 * 10.0**-digits * factor
    shown = f"{found[1]}{unit}" if unit in ("%", "x") else f"{found[1]} {unit}".rstrip()
    return Amount(shown, float(found[1]) * factor, slack)
