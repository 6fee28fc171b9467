"""What the text of an OutOfMemoryError means: too large, in fragments, not ours alone, or full."""

from __future__ import annotations

from foretrace.base.units import bytes_text, percent_text
from foretrace.schema.documents.oom import OutOfMemoryDocument, OutOfMemoryText

EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
RECORD = (
    "foretrace record --memory SCRIPT keeps the allocator when memory runs out; "
    "foretrace memory NAME.oom.pickle then says which lines hold it"
)
SMALLER = "a smaller batch, or torch.utils.checkpoint"
CONTEXT_BYTES = 1 << 30  # CUDA's own and libraries' on a large card: up to about 1 GiB


def out_of_memory_document(text: OutOfMemoryText) -> OutOfMemoryDocument:
    """The cause, and what to do about it."""
    for judge in (_too_large, _fragments, _others):
        if (found := judge(text)) is not None:
            return OutOfMemoryDocument(text, *found)
    return OutOfMemoryDocument(text, *_full(text))


_Judged = tuple[str, str, list[str]]


def _limit(text: OutOfMemoryText) -> int | None:
    known = [each for each in (text.allowed_bytes, text.total_bytes) if each is not None]
    return min(known, default=None)


def _room(text: OutOfMemoryText) -> int:
    """What the driver would still give to this process."""
    free, used = text.free_bytes or 0, (text.allocated_bytes or 0) + (text.unallocated_bytes or 0)
    return free if text.allowed_bytes is None else max(min(free, text.allowed_bytes - used), 0)


def _too_large(text: OutOfMemoryText) -> _Judged | None:
    limit, wanted = _limit(text), text.wanted_bytes
    if limit is None or wanted <= limit:
        return None
    why = f"one tensor of {bytes_text(wanted)} is larger than the {bytes_text(limit)} there are"
    at = f" at {text.line}" if text.line else " of the op in the traceback"
    return "too large", why, [f"check the shapes{at}: nothing else has to be freed", RECORD]


def _fragments(text: OutOfMemoryText) -> _Judged | None:
    """torch gives back every segment that is free as a whole before it raises."""
    idle, room, wanted = text.unallocated_bytes or 0, _room(text), text.wanted_bytes
    if not idle or idle + room < wanted:
        return None
    pieces = f"{bytes_text(idle)} are reserved by PyTorch and hold no tensor"
    if room:
        pieces += f", {bytes_text(room)} more are free"
    why = f"{pieces}: together enough for {bytes_text(wanted)}, but no piece is large enough"
    return "fragments", why, [f"{EXPANDABLE} lets pieces grow together", RECORD]


def _others(text: OutOfMemoryText) -> _Judged | None:
    others, wanted = text.other_bytes, text.wanted_bytes
    what = "other processes"
    if others is None and text.total_bytes is not None and text.free_bytes is not None:
        ours = (text.allocated_bytes or 0) + (text.unallocated_bytes or 0)
        others = max(text.total_bytes - text.free_bytes - ours - CONTEXT_BYTES, 0)
        what = "other processes or other libraries"
    if not others or text.allowed_bytes is not None or others + _room(text) < wanted:
        return None
    why = f"{what} hold {bytes_text(others)} of the card; without them {bytes_text(wanted)} fit"
    return (
        "other processes",
        why,
        ["nvidia-smi names them: end them, or choose another GPU", RECORD],
    )


def _full(text: OutOfMemoryText) -> _Judged:
    limit, used, wanted = _limit(text), text.allocated_bytes, text.wanted_bytes
    if limit is None or used is None:
        return "unknown", "the text does not say what is in use", [RECORD]
    why = f"tensors hold {bytes_text(used)}, {percent_text(used / max(limit, 1))} of what there is"
    if wanted > limit // 2:
        why += f"; this one alone takes {percent_text(wanted / limit)}"
    idle = text.unallocated_bytes or 0
    vain = f"expandable_segments would not help: {bytes_text(idle)} are reserved and free"
    return "full", why, [RECORD, SMALLER, vain]
