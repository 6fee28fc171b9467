"""What people read about one trace, as data that needs no trace: a cached overview loads fast."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.documents.look import CpuOpRow, Look

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
    event: int
    flops: int | None
    bytes: int | None
    tflops: float | None
    gbps: float | None


class LaunchSequence(Struct, frozen=True):
    """What `region` launches per call; `same` of its `calls` have this sequence of `operations`."""

    region: str
    calls: int
    same: int
    operations: int
    folded: bool
    memcpys: int
    memsets: int
    rows: list[LaunchRow]
    left_out: int


class Line(Struct, frozen=True):
    """One line of the first screen: a word in front, and what it says."""

    label: str
    text: str


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
