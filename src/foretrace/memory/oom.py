"""`foretrace memory - --json`: what the text of an OutOfMemoryError says, and what to do.

The text may be pasted with or without its traceback. torch up to 2.0 writes `(GPU 0; 23.65 GiB
total capacity; 21.02 GiB already allocated; …)`, later ones sentences (`GPU 0 has a total capacity
of …`). 2.1 spells it `capacty`. ROCm, XPU and NPU use the same words after their own name.
"""

from __future__ import annotations

import re

from msgspec import Struct

from foretrace.base.errors import TraceError
from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text, percent_text
from foretrace.memory import SCHEMA

RECORD = (
    "foretrace record --memory SCRIPT keeps the allocator when memory runs out; "
    "foretrace memory NAME.oom.pickle then says which lines hold it"
)
CONTEXT_BYTES = 1 << 30  # CUDA's own and libraries' on a large card: up to about 1 GiB
LONGEST = 1_000_000  # characters that are read: a log may be long, and the error is at its end
_UNITS = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = r"(\d{1,15}(?:\.\d{1,6})?) (bytes|B|KiB|MiB|GiB|TiB)\b"
_ERROR = regex(
    r"\b(\w{1,40})(?: backend)? out of memory(?: \([^()]{1,300}\))?\. Tried to allocate " + _SIZE
)
_TOTAL = regex(rf"capaci?ty of {_SIZE}|{_SIZE} total capacity")
_FREE = regex(rf"of which {_SIZE} is free|{_SIZE} free;")
_ALLOWED = regex(rf"{_SIZE} allowed|max allowed: {_SIZE}")
_OWN = regex(rf"this process has {_SIZE} memory in use")
_PROCESS = regex(rf"Process \d+ has {_SIZE} memory in use")
_ALLOCATED = regex(
    rf"{_SIZE} is allocated by PyTorch|{_SIZE} already allocated|MPS allocated: {_SIZE}"
)
_PRIVATE = regex(rf"with {_SIZE} allocated in private pools")
_UNALLOCATED = regex(rf"{_SIZE} is reserved by PyTorch but unallocated")
_RESERVED = regex(rf"{_SIZE} (?:reserved in total by PyTorch|cached)")
_OUTSIDE = regex(rf"other allocations: {_SIZE}")
_DEVICE = regex(r"\(?([GN]PU \d+)(?:;| has)")
_FRAME = regex(r'File "([^"]{1,500})", line (\d{1,9}), in (\S{1,200})')
_LIBRARIES = ("/torch/", "site-packages", "dist-packages", "/lib/python3")


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


DOCUMENTS = {"oom": OutOfMemoryDocument}


def read_oom_text(text: str) -> OutOfMemoryText:
    """The numbers of the last such error in a text; `TraceError` where there is none."""
    text = text[-LONGEST:]
    flat = " ".join(text.split())  # a terminal breaks the lines where it likes
    errors = list(_ERROR.finditer(flat))
    if not errors:
        hint = "paste the line that begins with `CUDA out of memory. Tried to allocate`"
        raise TraceError("E_NOT_AN_OOM", "-", "no text of an OutOfMemoryError", hint=hint)
    last = errors[-1]
    said = flat[last.start() : last.end() + 2_000]
    allocated, reserved = _first(_ALLOCATED, said), _first(_RESERVED, said)
    unallocated = _first(_UNALLOCATED, said)
    if unallocated is None and allocated is not None and reserved is not None:
        unallocated = max(reserved - allocated, 0)
    own, others = _processes(said, (allocated or 0) + (unallocated or 0))
    named = _DEVICE.search(said)
    return OutOfMemoryText(
        named[1] if named else last[1],
        _bytes(last[2], last[3]),
        _first(_TOTAL, said),
        _first(_FREE, said),
        _first(_ALLOWED, said),
        own,
        others,
        allocated,
        _first(_PRIVATE, said),
        unallocated,
        _line(text[: text.rfind("out of memory")]),
    )


def _processes(said: str, ours: int) -> tuple[int | None, int | None]:
    """Bytes of this process and of the others.

    In a container torch does not know its own number there: the smallest process that can hold
    what PyTorch reserved is this one.
    """
    own = _first(_OWN, said)
    others = sorted(_bytes(*found.groups()) for found in _PROCESS.finditer(said))
    if own is None and ours:
        own = next((size for size in others if size >= ours), None)
        others = [size for size in others if size != own]
    outside = _first(_OUTSIDE, said)
    known = own is not None or others or outside is not None
    return own, sum(others) + (outside or 0) if known else None


def _first(pattern: re.Pattern[str], said: str) -> int | None:
    found = pattern.search(said)
    if found is None:
        return None
    number, unit = (group for group in found.groups() if group is not None)
    return _bytes(number, unit)


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])


def _line(above: str) -> str:
    """`train.py:12 in forward`: the innermost line outside libraries, else the innermost."""
    frames = _FRAME.findall(above)
    own = [frame for frame in frames if not any(part in frame[0] for part in _LIBRARIES)]
    if not frames:
        return ""
    file, line, name = (own or frames)[-1]
    return f"{file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{line} in {name}"


def out_of_memory_document(text: OutOfMemoryText) -> OutOfMemoryDocument:
    """The cause, and what to do about it."""
    judged = (judge(text) for judge in (_too_large, _in_fragments, _others))
    return OutOfMemoryDocument(text, *next(filter(None, judged), _full(text)))


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


def _in_fragments(text: OutOfMemoryText) -> _Judged | None:
    """torch gives back every segment that is free as a whole before it raises."""
    idle, room, wanted = text.unallocated_bytes or 0, _room(text), text.wanted_bytes
    if not idle or idle + room < wanted:
        return None
    pieces = f"{bytes_text(idle)} are reserved by PyTorch and hold no tensor"
    if room:
        pieces += f", {bytes_text(room)} more are free"
    why = f"{pieces}: together enough for {bytes_text(wanted)}, but no piece is large enough"
    expandable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets pieces grow together"
    return "fragments", why, [expandable, RECORD]


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
    end = "nvidia-smi names them: end them, or choose another GPU"
    return "other processes", why, [end, RECORD]


def _full(text: OutOfMemoryText) -> _Judged:
    limit, used, wanted = _limit(text), text.allocated_bytes, text.wanted_bytes
    if limit is None or used is None:
        return "unknown", "the text does not say what is in use", [RECORD]
    why = f"tensors hold {bytes_text(used)}, {percent_text(used / max(limit, 1))} of what there is"
    if wanted > limit // 2:
        why += f"; this one alone takes {percent_text(wanted / limit)}"
    idle = text.unallocated_bytes or 0
    vain = f"expandable_segments would not help: {bytes_text(idle)} are reserved and free"
    return "full", why, [RECORD, "a smaller batch, or torch.utils.checkpoint", vain]
