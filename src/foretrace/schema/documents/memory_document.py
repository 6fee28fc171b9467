"""`foretrace memory --json`: what filled the memory of a device, which lines, and what frees it."""

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


DOCUMENT = MemoryDocument
