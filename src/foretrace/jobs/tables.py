"""What one file of a job is reduced to, and the tables that all files of a job give together.

A worker reads one file and returns a `RankPart`: facts, and the tables below as Arrow streams.
Everything about the job is computed from the parts; no worker and no analysis opens a trace again.
Times are integer nanoseconds on the clock of the rank's own host, since 1970 where the file has a
time base. The tables are steps, collectives, spans, host and kernels; `COLUMNS` of
`jobs/whole_job.py` lists their columns. Each also has `rank` once the parts are put
together.

A step's window tiles the recording: from the end of the GPU work of the step before (for the first
step: from the start of its host range) to the end of its own GPU work. `compute_ns` and `comms_ns`
are unions over all streams inside the window, `both_ns` is where both run, `copy_ns` is where only
copies run, `idle_ns` where nothing runs, `data_ns` the part of `idle_ns` in which the launching
thread is in the data loader, and `host_ns` the rest of `idle_ns`. `whole` is false for a step that
the recording cut. A recording without steps is one step, numbered -1. GPU work has the step that
launched it, and a null where it was launched before the recording. On a rank without GPU work, ops
on the host are its compute and collectives on the host its comms.

`order` counts the collectives of one group on one rank by the time of their launch, from 0, over
the whole recording. `since_ns` is the end of the previous collective of the same group on this
rank, or the start of the step's window. The five times after it say what the rank did from
`since_ns` to `start_ns`: `compute_ns`, `comms_ns` (without compute), `copy_ns` (copies alone) and
`idle_ns` add up to it, and `data_ns` is a part of `idle_ns`. `alone_ns` is the part of the
collective under which no compute runs.
`ready_ns` is when the compute and copies are over that were launched before the collective, where
that can be seen: it starts no earlier. `on_host` collectives (gloo) are host ranges. `peer` is the
other rank of a send or receive.

A span is GPU work of one kind (compute, comms, copy) on one stream without a pause longer than
`PAUSE_NS`; a collective is always a span of its own and `collective` is its id. `host` has what the
launching thread waits for: data, sync, comms (a collective on the host). `kernels` has those of the
whole steps; `signature` is the sizes of a kernel's op, or its grid where no sizes are recorded.
"""

from __future__ import annotations

from msgspec import Struct

from foretrace.read.ledger import NoteEntry

PAUSE_NS = 1_000
WITHOUT_STEPS = -1


def step_name(number: int) -> str:
    """What a number of a step means to a reader."""
    return "the recording" if number == WITHOUT_STEPS else f"step {number}"


class JobGroup(Struct, frozen=True):
    """A process group as a header names it; `ranks` is empty where only its size is known."""

    name: str
    description: str = ""
    size: int | None = None
    ranks: tuple[int, ...] = ()


class RankFacts(Struct, frozen=True):
    """What a file says about its rank, and how it was read."""

    path: str
    rank: int | None
    world_size: int | None
    job: str
    host: str  # from the file's name or its header; empty where neither has it
    pid: int | None
    devices: tuple[str, ...]
    groups: tuple[JobGroup, ...]
    has_time_base: bool
    start_ns: int
    end_ns: int
    file_bytes: int
    events: int
    steps: tuple[int, ...]
    kernel_signature: str  # equal where names, shapes and counts of kernels in a step are equal
    notes: tuple[NoteEntry, ...] = ()
    lost_data: bool = False


class RankPart(Struct, frozen=True):
    """One file, reduced. `tables` has an Arrow stream for each table."""

    facts: RankFacts
    tables: dict[str, bytes]
