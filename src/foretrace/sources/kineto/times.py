"""Microseconds as written become integer nanoseconds, exactly, in all five eras of the format.

A decimal with three digits below 2^43 us is the nearest double to that decimal, so splitting whole
and fraction and rounding the fraction to thousandths gives back every nanosecond. Absolute float
times of early 2024 lost their digits in the writer (a double near 1.7e15 has steps of a quarter
microsecond): nothing more is lost here, and the resolution is stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretrace.schema.ledger import LedgerBuilder

_EPOCH_US = 10**14  # later than 1973: a time this large counts from 1970
_MAX_US = 9.0e15  # beyond this nanoseconds do not fit 64 bits
Ints = NDArray[np.int64]
Narrow = NDArray[Any]  # integers of whatever width holds them
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Clock:
    """How this trace counts: what its times start from, and how fine they are."""

    base_ns: int | None
    offset_ns: int
    resolution_ns: int
    origin_us: int = 0


def nanoseconds(us: Floats) -> Ints:
    """Exact for every time a writer of this format can state; unusable values come out as 0."""
    usable = np.abs(us) < _MAX_US
    safe = np.where(usable, us, 0.0)
    whole = np.floor(safe)
    fraction = np.rint((safe - whole) * 1000.0)
    result: Ints = whole.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return result


def clock_of(header: dict[str, Any], ts: Floats, origin_us: int, ledger: LedgerBuilder) -> Clock:
    """Which era wrote these times; notes what the reader should know about their precision and
    origin.
    """
    if origin_us:
        ledger.note(
            "ts_precision",
            text="absolute times as floating point: the writer may have lost up to +-250 ns",
        )
        return Clock(0, origin_us * 1000, 250, origin_us)
    usable = ts[np.abs(ts) < _MAX_US]
    positive = usable[usable > 0]
    typical = float(np.median(positive)) if positive.size else 0.0
    base = _base(header)
    if typical >= _EPOCH_US:
        ledger.note("ts_precision", text="times are whole microseconds: +-1000 ns")
        return Clock(0, 0, 1000)
    if base is None:
        if positive.size:
            ledger.note("base_missing")
        return Clock(None, 0, 1)
    return Clock(base, base, 1)


def _base(header: dict[str, Any]) -> int | None:
    value = header.get("baseTimeNanoseconds")
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else None
