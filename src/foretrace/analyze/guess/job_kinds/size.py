"""How large the job is: its world size, the ranks that were read, hosts, steps, lost files.

The world size is what the headers say; `ranks` counts the traces that were read.
"""

from __future__ import annotations

from collections.abc import Callable

from foretrace.analyze.guess.job_kinds import JobQuery
from foretrace.analyze.guess.kinds import GuessKind, Measurement
from foretrace.analyze.guess.windows import Unknown
from foretrace.analyze.guess.words import EQUALS
from foretrace.base.units import count_text
from foretrace.schema.documents.job import JobDocument

_COUNTS: dict[str, tuple[Callable[[JobDocument], int | None], str]] = {
    "missing": (
        lambda found: found.job.missing if found.job.world_size is not None else None,
        "no header has the world size",
    ),
    "world": (lambda found: found.job.world_size, "no header has the world size"),
    "ranks": (lambda found: found.job.ranks, ""),
    "hosts": (lambda found: found.job.hosts or None, "no file names its host"),
    "steps": (lambda found: len(found.job.steps), ""),
    "unreadable": (lambda found: len(found.left_out), ""),
}


def measure(query: JobQuery) -> Measurement:
    """Judge `world size == 8`."""
    what = next(name for name in _COUNTS if name in query.args)
    count, absent = _COUNTS[what][0](query.found), _COUNTS[what][1]
    if count is None:
        raise Unknown(absent)
    verdict = query.args.get("compare", EQUALS).of(count, query.args["amount"])
    return Measurement(verdict, count_text(count))


JOB_KIND = GuessKind(
    "size",
    40,
    (
        "world [size] {compare:compare} {amount:count}",
        "missing ranks {compare:compare} {amount:count}",
        "unreadable files|traces {compare:compare} {amount:count}",
        *(f"{word} {{compare:compare}} {{amount:count}}" for word in ("ranks", "hosts", "steps")),
        *(f"[{{compare:phrase}}] {{amount:count}} {word}" for word in ("ranks", "hosts", "steps")),
    ),
    measure,
)
