"""`foretrace memory --json`: what filled the memory of a device, which lines, and what frees it.
`foretrace memory A B --json`: what changed in the memory from A to B.
`foretrace memory - --json`: what the text of an OutOfMemoryError says, and what to do.
"""

from __future__ import annotations

from msgspec import Struct

SCHEMA = 1


class MemoryPart(Struct, frozen=True):
    """Bytes that are live at the peak: of a category, a line or a module."""

    name: str
    bytes: int
    share: float
    count: int


class MemoryLine(Struct, frozen=True):
    """A line of code with what it holds at the peak, and for how long in the median.

    `live_ns` is None where nothing was freed in the history.
    """

    line: str
    category: str
    bytes: int
    share: float
    count: int
    live_ns: int | None


class Fragments(Struct, frozen=True):
    """What the allocator holds from the driver at the end of the history, and what of it is free.

    `largest_free` is the largest free block: a larger allocation needs new memory.
    """

    reserved_bytes: int
    live_bytes: int
    free_bytes: int
    largest_free: int
    free_blocks: int
    expandable: bool


class Growth(Struct, frozen=True):
    """Bytes that stay from step to step: how many a step, over how many steps, by line."""

    bytes_per_step: int
    steps: int
    lines: list[MemoryPart]


class FailedAllocation(Struct, frozen=True):
    """The allocation that failed, the line that wanted it, and the memory that was free.

    `live_bytes` were in use at that moment, by category in `categories`.
    """

    bytes: int
    line: str
    device_free: int | None
    why: str
    live_bytes: int
    categories: list[MemoryPart]


class LargerBatch(Struct, frozen=True):
    """The peak with twice the batch, and how many times it fits the card, where that is known."""

    twice_bytes: int
    fits_times: int | None


class PeakFix(Struct, frozen=True):
    """A change that lowers the peak, or what is reserved, and to how much."""

    name: str
    order: str
    why: str
    write: str
    cost: str
    peak_bytes: int
    reserved_bytes: int | None


class DeviceMemoryDocument(Struct, frozen=True):
    """One device. Times count from the first event of the history."""

    device: int
    allocations: int
    span_ns: int
    steps: int
    stacks: bool
    peak_bytes: int
    peak_ns: int
    peak_pass: str
    end_bytes: int
    reserved_bytes: int
    categories: list[MemoryPart]
    lines: list[MemoryLine]
    modules: list[MemoryPart]
    fragments: Fragments | None  # None where the source has no blocks, as a trace
    growth: Growth | None
    failed: FailedAllocation | None
    fixes: list[PeakFix]
    batch: LargerBatch | None = None


class MemoryDocument(Struct, frozen=True):
    """The device with the highest peak; the others, if any, are in `others`."""

    path: str
    card: str
    card_bytes: int
    device: DeviceMemoryDocument
    others: list[DeviceMemoryDocument]
    lost: dict[str, int]
    schema: int = SCHEMA


class HeldChange(Struct, frozen=True):
    """Bytes at the peak of each side: of a category, or of a line with its category.

    `change` is one of same, grew, shrank, new, gone. A line that only moved in its function is the
    same line, under its name in B.
    """

    name: str
    category: str
    a_bytes: int
    b_bytes: int
    change: str


class MemoryChanges(Struct, frozen=True):
    """Both peaks, the verdict in a sentence, and the parts, the largest change first."""

    a: str
    b: str
    a_peak_bytes: int
    b_peak_bytes: int
    a_reserved_bytes: int
    b_reserved_bytes: int
    a_growth_bytes: int
    b_growth_bytes: int
    verdict: str
    categories: list[HeldChange]
    lines: list[HeldChange]
    schema: int = SCHEMA


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


DOCUMENTS = {"memory": MemoryDocument, "memory_changes": MemoryChanges, "oom": OutOfMemoryDocument}
