"""One load or store in generated code, before its tensor is known."""

from __future__ import annotations

from msgspec import Struct

from foretrace.why.index_forms import Index


class Touch(Struct, frozen=True):
    """An access through the pointer `argument`; `index` or `mask` is None if it is not known."""

    argument: str
    mode: str  # load, store, atomic
    text: str
    index: Index | None
    mask: Index | None = 1
    most: int | None = None  # elements that it can reach at most, where that is known
