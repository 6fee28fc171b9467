"""`Certainty`: how far the cost of a kernel can be trusted."""

from __future__ import annotations

from enum import StrEnum


class Certainty(StrEnum):
    """How the bytes that a cost states relate to what the op must move.

    An upper bound is an estimate: only `EXACT` and `AT_LEAST` never exceed what the op must move.
    """

    EXACT = "exact"
    AT_LEAST = "at_least"
    ESTIMATE = "estimate"
    NONE = "none"


# The bytes are known, but the op may move more or less.
INEXACT = frozenset({Certainty.AT_LEAST, Certainty.ESTIMATE})
