"""One load or store in generated code, before its tensor is known."""

from __future__ import annotations

from msgspec import Struct

from foretrace.analyze.why.index_forms import Index


class Touch(Struct, frozen=True):
    """An access through the pointer `argument`; `index` or `mask` is None if it is not known."""

    argument: str
    mode: str  # load, store, atomic
    text: str
    index: Index | None
    mask: Index | None = 1
    most: int | None = None  # elements that it can reach at most, where that is known


def unseen(pointer: str, mutated: bool = False) -> list[Touch]:
    """A pointer that the code uses in a way that is not understood: by its name, and no index."""
    both = pointer.startswith(("in_out", "ws", "sem"))
    stored = both or mutated or pointer.startswith("out")
    modes = [mode for mode, done in (("load", both or not stored), ("store", stored)) if done]
    return [Touch(pointer, mode, "", None, None) for mode in modes]
