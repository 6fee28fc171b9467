"""What a recording lost, and what in it is distorted: the line `TRUST`, the most harmful first.

Most causes are notes of the ledger. A cause of `CAUSES` says what it does to the figures, what to
do, and where others met it. A sound recording has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from foretrace.base.errors import first_line
from foretrace.base.tables import Line
from foretrace.base.units import count_text, time_text
from foretrace.look.documents import Look, TrustEntry
from foretrace.read.ledger import ABSENT, GRAVE
from foretrace.read.ledger import CODES as LEDGER_CODES
from foretrace.trace.replay import COST
from foretrace.trace.trace import Trace

WORDS = 2  # causes that the line has room for in words; the others have their name there
WORTH = 0.01  # of GPU operations that overlap: fewer change no figure
ERROR = 80  # characters of it that are shown
STACKS = 0.1  # of the host's time that recording stacks took: less is within the spread of steps

# cause: what it does to the figures, what to do, reference; the most harmful first
CAUSES: dict[str, tuple[str, str, str]] = {
    "gpu_events_missing": (
        "GPU time and counts are too low, and the absence of a kernel proves nothing",
        "record more steps and judge those whose launches all have a GPU event; call "
        "torch.cuda.synchronize() before the recording ends",
        "pytorch#192021, kineto#996",
    ),
    "unrecorded": (
        "no time and no rate of the GPU in that wait is known",
        "call torch.cuda.synchronize() before the recording begins",
        "kineto#996",
    ),
    "script_failed": (
        "a step that it did not end is a part of one",
        "correct it and record it again",
        "",
    ),
    "dur_overrun": (
        "GPU time and busy shares are too long",
        "trust no time of these kernels; compare steps without them",
        "TraceLens#669",
    ),
    "stacks": (
        "host times and idle time are too long",
        "time a recording without with_stack",
        "torch.profiler: overhead of shapes and stacks",
    ),
    "counters_empty": (
        "no counter of a kernel is in the trace",
        "Nsight Compute counts them",
        "kineto#1412",
    ),
    "stream_overlap": (
        "none here, where each counts and busy time is their union; older viewers do not draw them",
        "nothing: programmatic dependent launch starts a kernel before the one ahead has ended",
        "perfetto#4280",
    ),
    "cupti_attached": (
        "what this process ran later was slower, by 10 to 20%",
        "time in a process that has not profiled, or with CUDA 12.6 or later",
        "pytorch#146604",
    ),
}
# With these alone the verdict holds: it comes first.
MILD = frozenset(("stacks", "counters_empty", "stream_overlap", "cupti_attached"))
_LOST = ("what follows holds for the rest", "copy or record the file again", "")


def trust(trace: Trace, look: Look) -> list[TrustEntry]:
    """Every cause that the events of this recording show, the most harmful first."""
    grave = {note.code for note in look.ledger.banner}
    lost, places = {*ABSENT, "gpu_events_missing", "unrecorded"}, ["", *CAUSES]
    # lost events come first, then times that cannot be right, then what is distorted
    return sorted(
        _causes(trace, look),
        key=lambda each: (
            each.cause not in lost,
            each.cause not in grave,
            places.index(each.cause if each.cause in CAUSES else ""),
        ),
    )


def trust_lines(found: Sequence[TrustEntry]) -> Iterator[Line]:
    """One line; nothing of a sound recording."""
    words = [f"{each.text} [{each.cause}]" for each in found[:WORDS]]
    rest = [f"{each.cause} ({count_text(each.count)})" for each in found[WORDS:]]
    if words:
        yield Line("TRUST", " · ".join([*words, *([f"also {', '.join(rest)}"] if rest else [])]))


def _causes(trace: Trace, look: Look) -> Iterator[TrustEntry]:
    """Notes of the ledger that are grave, or in the table; then what the events show."""
    totals, codes = look.totals, {note.code for note in look.ledger.notes}
    for note in look.ledger.notes:
        if note.code == "stream_overlap":
            every = totals.kernels + totals.memcpys + totals.memsets
            if "dur_overrun" in codes or note.count < WORTH * every:
                continue  # the false ends make it, or it changes nothing
        if note.severity in GRAVE or note.code in CAUSES:
            meaning = CAUSES.get(note.code, _LOST if note.code in ABSENT else ("", "", ""))
            general = note.count > 1 and note.text == LEDGER_CODES[note.code][1]
            count = f" ({count_text(note.count)})" if general else ""
            yield TrustEntry(note.code, note.count, f"{note.text}{count}", *meaning)

    # the GPU's half of a long wait is missing: no time and no rate of it can be right
    if (wait := look.unrecorded) is not None:
        inside = f" ({wait.op})" if wait.op else ""
        text = f"what the GPU did for {time_text(wait.ns)} is not recorded: the host waits in one "
        text += f"{wait.call}{inside}, and the trace has no GPU event then"
        yield TrustEntry("unrecorded", 1, text, *CAUSES["unrecorded"])

    if (error := trace.run.ended.error) is not None:
        text = f"the script failed: {first_line(error, ERROR)}"
        yield TrustEntry("script_failed", 1, text, *CAUSES["script_failed"])

    # Python frames of the busiest thread: each took the cost of one, and at most its own time
    host = trace.host
    frames = np.flatnonzero(host.is_kind("python_function") & host.lasting)
    if not len(frames) or not look.host_times_profiled:
        return
    track = np.bincount(host.track[frames]).argmax()
    frames = frames[host.track[frames] == track]
    whole = int(np.ptp(np.concatenate((host.start[frames], host.end[frames]))))
    taken = int(np.minimum(host.self_length[frames], COST.python).sum())
    if taken >= STACKS * whole:
        text = f"recording {count_text(len(frames))} Python frames took about {time_text(taken)} "
        text += f"of {time_text(whole)} on the host"
        yield TrustEntry("stacks", len(frames), text, *CAUSES["stacks"])
