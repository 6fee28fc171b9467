"""`foretrace memory - --json`: what the text of an OutOfMemoryError says, and what to do."""

from __future__ import annotations

from msgspec import Struct

SCHEMA = 1


class OutOfMemoryText(Struct, frozen=True):
    """The numbers of the text; None where it has none.

    `allowed_bytes` is a limit below the card's. `unallocated_bytes` are reserved by PyTorch and
    hold no tensor. `process_bytes` are of this process, `other_bytes` of the other ones on the
    device. `line` is the innermost line of the user's in the traceback above the text.
    """

    device: str
    wanted_bytes: int
    total_bytes: int | None
    free_bytes: int | None
    allowed_bytes: int | None
    process_bytes: int | None
    other_bytes: int | None
    allocated_bytes: int | None
    private_bytes: int | None
    unallocated_bytes: int | None
    line: str


class OutOfMemoryDocument(Struct, frozen=True):
    """The numbers, the cause in a word and a sentence, and what to do, the best first.

    `cause` is one of too large, fragments, other processes, full, unknown.
    """

    text: OutOfMemoryText
    cause: str
    why: str
    next: list[str]
    schema: int = SCHEMA


DOCUMENT = OutOfMemoryDocument
