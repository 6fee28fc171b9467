"""Reads the text of an OutOfMemoryError, pasted with or without its traceback.

torch up to 2.0 writes `(GPU 0; 23.65 GiB total capacity; 21.02 GiB already allocated; …)`, later
ones sentences (`GPU 0 has a total capacity of …`). 2.1 spells it `capacty`. ROCm, XPU and NPU use
the same words after their own name.
"""

from __future__ import annotations

import re

from foretrace.base.errors import TraceError
from foretrace.base.patterns import regex
from foretrace.memory.documents import OutOfMemoryText

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
