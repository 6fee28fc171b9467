"""Paths that mean a job of many ranks, for commands that also take one trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.cli._options import Reading, say

if TYPE_CHECKING:
    from foretrace.schema.documents.job import JobDocument


def is_job(path: str, reading: Reading) -> bool:
    """Whether a path means several traces: a folder or zip of them, or a place in a store."""
    from foretrace.read.folder import searched

    if "://" in path:
        return True
    inside = searched(path, reading.limits)
    return inside is not None and len(inside.traces) > 1


def job_at(path: str, reading: Reading) -> JobDocument:
    """Read a job; what of it could not be read is said on stderr."""
    from foretrace.analyze import jobs
    from foretrace.show.overview.job_verdict import overview_of_job
    from foretrace.show.render.terminal import plain

    with jobs.read(path, limits=reading.limits, cache=reading.cache) as job:
        found = overview_of_job(job)
    for first in found.left_out[:1]:
        more = f" (and {len(found.left_out) - 1:,} more)" if len(found.left_out) > 1 else ""
        say(plain(f"warning: left out: {first.path}: {first.text} [{first.code}]{more}"))
    return found
