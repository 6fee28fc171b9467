"""Units of Nsight Compute, as factors to bytes, nanoseconds and plain counts."""

from __future__ import annotations

_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_TIME = {
    "ns": 1.0, "nsecond": 1.0, "nanosecond": 1.0,
    "us": 1e3, "usecond": 1e3, "microsecond": 1e3,
    "ms": 1e6, "msecond": 1e6, "millisecond": 1e6,
    "s": 1e9, "sec": 1e9, "second": 1e9,
}  # fmt: skip
# `Kinst` is a thousand instructions: the words that a prefix can precede.
_COUNTED = ("byte", "sector", "inst", "cycle", "request", "wavefront", "pass", "op", "warp")


def factor(unit: str) -> float | None:
    """What a value in this unit is multiplied by; None for a unit that is not known.

    A unit without a factor of its own (`%`, `block`, a rate) is as it is written.
    """
    word = unit.strip().lower()
    if word in _TIME:
        return _TIME[word]
    for counted in _COUNTED:
        for form in (counted, f"{counted}s"):
            if word.endswith(form):
                return _PREFIX.get(word.removesuffix(form))
    return 1.0 if word in ("", "%") else None
