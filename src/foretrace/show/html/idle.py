"""Idle time as a page reads it: pieces with their cause, and the words for every cause."""

from __future__ import annotations

from msgspec import Struct

from foretrace.analyze.rules.idle_gaps import NO_OPS, WORDS
from foretrace.model.idle import CAUSES
from foretrace.model.idle_pieces import idle_pieces
from foretrace.model.trace import Trace
from foretrace.show.html.packing import Packed, pack

_UNPROVEN = "while the host made launches whose GPU work is not in the trace"


class IdleTime(Struct, frozen=True):
    """`causes` are (name, words); `pieces` has start, length, cause (a place in `causes`) and gpu,
    by GPU and in order of time. Pieces that touch are of one gap.
    """

    causes: list[tuple[str, str]]
    pieces: Packed


def idle_time(trace: Trace, origin_ns: int) -> IdleTime:
    """All idle time of a recording, in ns from its first event."""
    found = idle_pieces(trace)
    words = WORDS if trace.host.is_op.any() else WORDS | {"host": NO_OPS, "launch": NO_OPS}
    causes = [(cause, words[cause]) for cause in CAUSES]
    columns = {
        "start": found.start - origin_ns,
        "length": found.end - found.start,
        "cause": found.cause,
        "gpu": found.device,
    }
    return IdleTime([*causes, ("unproven", _UNPROVEN)], pack(columns, frozenset({"start"})))
