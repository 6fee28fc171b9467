"""What a kernel name says: `KernelId`, and `Family`, which each file of `families/` declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
