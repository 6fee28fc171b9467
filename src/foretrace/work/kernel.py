"""What is said of a kernel: by its name, and of its memory traffic.

Each file of `families/` declares a `Family`, which reads a name into a `KernelId`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

_ROLES = (
    "gemm gemv conv attention pointwise reduction scan normalization softmax copy "
    "scatter_gather optimizer comms random sort other"
)
ROLES = tuple(_ROLES.split())
# What is looked at of a name: three times the longest seen in a trace. Kineto itself leaves names
# beyond 8,192 characters mangled.
NAME_LIMIT = 16_384
CERTAINTIES = ("documented", "checked", "inferred", "unknown")


class Part(Struct, frozen=True):
    """A piece of a name: its text, the field it fills (or ""), its meaning, and how sure we are."""

    text: str
    field: str
    meaning: str
    certainty: str


class KernelId(Struct, frozen=True):
    """A decoded kernel name. A field that the name does not state is absent, never a guess."""

    name: str
    short: str
    family: str
    role: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()

    def get(self, name: str) -> Any:
        """The field, or None where the name does not state it."""
        return self.fields.get(name)


class FieldChange(Struct, frozen=True):
    """A field that two names state differently; None where a name does not state it."""

    field: str
    before: str | int | bool | list[int | str] | None
    after: str | int | bool | list[int | str] | None


class Family(Struct, frozen=True):
    """One kernel-name family: `decode` returns None for a name that is not its own.

    Families are tried in `order`, low first: narrow prefixes come before broad templates. `states`
    names fields that its names can state; a prediction about another field is answered by that.
    """

    name: str
    decode: Callable[[str], KernelId | None]
    order: int = 50
    states: frozenset[str] = frozenset()


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
    differ. `before_ns` is from its end to the start of the reader, and `between_bytes` is the
    traffic of everything that started in between, both medians over the launches. `unpriced` of
    these operations have no known traffic.
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
