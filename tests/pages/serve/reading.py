"""What a page reads of an answer, in Python."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from foretrace.pages.timeline import edges
from foretrace.trace.intervals import Ints


def columns(packed: Any) -> dict[str, Ints]:
    """Packed columns as arrays; `packed` is the Struct or its JSON."""
    held: Mapping[str, Any] = packed if isinstance(packed, dict) else msgspec.to_builtins(packed)
    numbers = _numbers(zlib.decompress(base64.b64decode(held["data"])))
    found = {}
    for name in held["columns"]:
        values = np.array([next(numbers) for _ in range(held["rows"])], np.int64)
        found[name] = np.cumsum(values) if name in held["differences"] else values
    return found


def bands(packed: Any, start: int, end: int, width: int) -> dict[tuple[int, int, int], Ints]:
    """Busy ns of each pixel by track, row and group."""
    held: Mapping[str, Any] = packed if isinstance(packed, dict) else msgspec.to_builtins(packed)
    runs, busy, full = columns(held["runs"]), columns(held["busy"])["ns"], edges(start, end, width)
    found: dict[tuple[int, int, int], Ints] = {}
    used = 0
    for track, row, group, first, count, is_full in zip(*runs.values(), strict=True):
        own = found.setdefault((track, row, group), np.zeros(width, np.int64))
        here = np.diff(full[first : first + count + 1]) if is_full else busy[used : used + count]
        own[first : first + count] = here
        used += 0 if is_full else count
    assert used == len(busy)
    return found


def _numbers(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield (value >> 1) ^ -(value & 1)
            value = shift = 0
