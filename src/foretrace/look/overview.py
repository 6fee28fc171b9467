"""What people read about one trace, as data that needs no trace: a cached overview loads fast.

`folded` chooses the groups that have a row of their own on the first screen.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from foretrace.base.tables import Line
from foretrace.look.documents import CpuOpRow, GroupRow, Look

WHOLE, EACH_STEP = "the whole recording", "each step"  # sequences that are not of a region


class LaunchRow(Struct, frozen=True):
    """A GPU operation of a sequence, or several with the same name, shapes and op path.

    `chain` holds the ops above it, outermost first, and the call that launched it. `host_ns` is the
    host's own time in that launch and those ops.
    """

    kernel: str
    name: str
    role: str
    bound: str
    chain: list[str]
    times: int
    ns: float | None
    host_ns: float | None
    delay_ns: float | None
    tflops: float | None
    gbps: float | None
    certainty: str = ""  # of both rates


class LaunchSequence(Struct, frozen=True):
    """What `region` launches per call; `same` of its `calls` have this sequence of `operations`."""

    region: str
    calls: int
    same: int
    operations: int
    folded: bool
    rows: list[LaunchRow]
    left_out: int


class RegionOverview(Struct):
    """The verdict on one region, and what its calls launch, or compute on a CPU."""

    name: str
    line: Line
    sequences: list[LaunchSequence]
    cpu: list[CpuOpRow] = []


class Overview(Struct):
    """The document of `--json`, what is for people, and what a set needs to know of each trace.

    `lines` and `notes` stand above and below the table of groups, whose times are `per` step, call
    or recording. A finding that saves less than `worth_ns` is small.
    """

    look: Look
    lines: list[Line]
    notes: str
    per: str
    worth_ns: float
    sequences: list[LaunchSequence]
    world_size: int | None
    base_ns: int | None
    job: str = ""


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
