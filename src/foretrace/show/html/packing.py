"""Columns of integers as short text: what a page carries its events in.

Each column is written as differences (or as it stands), zigzag, in groups of seven bits, all
columns one after the other, deflated, in base64. The page undoes it in `columns.ts` with the
browser's own inflate. The 36,751 events of the recorded training steps take 236 kB this way.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Ints = NDArray[np.int64]
# rows of one view: those are packed quickly, whole recordings tightly
SCREENFUL = 30_000


class Packed(Struct, frozen=True):
    """Columns of equal length as text; those in `differences` are written as such."""

    rows: int
    columns: list[str]
    differences: list[str]
    data: str


def pack(columns: Mapping[str, Ints], differences: frozenset[str] = frozenset()) -> Packed:
    """Pack columns; those named in `differences` compress better as such."""
    rows = len(next(iter(columns.values()))) if columns else 0
    wide = {name: column.astype(np.int64) for name, column in columns.items()}
    parts = [
        varints(np.diff(column, prepend=0) if name in differences else column)
        for name, column in wide.items()
    ]
    data = base64.b64encode(zlib.compress(b"".join(parts), 9 if rows > SCREENFUL else 1)).decode()
    return Packed(rows, list(columns), sorted(differences & set(columns)), data)


def varints(values: Ints) -> bytes:
    """Zigzag, then seven bits a byte, low bits first; the high bit says that more follow."""
    signed = values.astype(np.int64)
    folded = ((signed << 1) ^ (signed >> 63)).astype(np.uint64)
    most = max(-(-int(folded.max(initial=0)).bit_length() // 7), 1)
    if most == 1:  # as most columns are
        return folded.astype(np.uint8).tobytes()
    size = np.ones(len(folded), np.int64)
    for step in range(1, most):
        size += folded >= np.uint64(1 << (7 * step))
    first = np.cumsum(size) - size
    out = np.zeros(int(size.sum()), np.uint8)
    for step in range(most):
        rows = size > step
        group = (folded[rows] >> np.uint64(7 * step)).astype(np.uint8) & np.uint8(127)
        more = np.where(size[rows] > step + 1, np.uint8(128), np.uint8(0))
        out[first[rows] + step] = group | more
    return out.tobytes()
