"""Memory traffic of a kernel: how sure a cost is, and what L2 can hold."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Certainty(StrEnum):
    """How the bytes that a cost states relate to what the op must move.

    Only `EXACT` and `AT_LEAST` never exceed what the op must move. `AT_MOST` holds for the FLOP
    beside the bytes too.
    """

    EXACT = "exact"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    ESTIMATE = "estimate"
    NONE = "none"


# The bytes are known, but the op may move more or less.
INEXACT = frozenset({Certainty.AT_LEAST, Certainty.AT_MOST, Certainty.ESTIMATE})


class CachedInput(Struct, frozen=True):
    """An input that L2 can still hold: what wrote it, and what ran since.

    `op` launched `kernel`, which wrote as many bytes of the same type; `a or b` where launches
    differ. `before_ns` is from its end
    to the start of the reader, and `between_bytes` is the traffic of everything that started in
    between, both medians over the launches. `unpriced` of these operations have no known traffic.
    """

    tensor: str
    bytes: int
    op: str
    kernel: str
    before_ns: float
    between_bytes: int
    unpriced: int = 0


class CacheUse(Struct, frozen=True):
    """`verdict` says whether L2 explains a rate above that of HBM.

    certain   one kernel wrote as many bytes as an input has, and nothing else did that L2 can hold
    likely    several did, or not before every launch: a trace does not say which tensor is which
    result    no input can be in L2, but the result fits there and is written back later
    doubted   neither: the cost or the time is in doubt. `too_large` are its bytes, where L2 cannot
              hold them
    unknown   the same on a GPU whose L2 was not measured

    `excess_bytes` are those that HBM cannot have moved in the time, `written_bytes` the result.
    """

    verdict: str
    excess_bytes: int
    cache_bytes: int
    inputs: tuple[CachedInput, ...] = ()
    written_bytes: int = 0
    too_large: int = 0
