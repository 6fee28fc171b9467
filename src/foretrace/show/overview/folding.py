"""Which groups have a row of their own on the first screen.

This needs no trace, so that a page of a cached document loads fast.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.schema.documents.look import GroupRow

SMALL = 0.01  # of GPU time: a group below has no row of its own
# Six rows, and up to ten while the others take more than a tenth of the time together: the first
# screen has 25 lines.
FEW, MOST, REST = 6, 10, 0.1
OTHER = "other"


def folded(rows: Sequence[GroupRow], most: int = MOST) -> list[GroupRow]:
    """The rows that matter, the most time first; the rest is one row, `other`."""
    large = [row for row in rows if row.share >= SMALL]
    count = min(FEW, most)
    while count < most and sum(row.share for row in rows[count:]) > REST:
        count += 1
    shown, rest = large[:count], [*rows[len(large[:count]) :]]
    if len(rest) < 2 and len(rows) <= most:
        return list(rows)
    time, many = sum(row.time_ns for row in rest), sum(row.count for row in rest)
    return [*shown, GroupRow(OTHER, time, sum(row.share for row in rest), many, "")]
