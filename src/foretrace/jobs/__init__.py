"""Jobs of many ranks: each file is reduced by itself, and the parts are joined."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from foretrace.jobs.places import numbers, places
from foretrace.sources.limits import Limits

if TYPE_CHECKING:
    from foretrace.jobs.job import Job


def read(
    path: str | os.PathLike[str],
    *,
    ranks: str | None = None,
    steps: str | None = None,
    ray: str | None = None,
    limits: Limits | None = None,
    cache: bool = True,
) -> Job:
    """Read a job: a folder or zip of the traces of its ranks.

    `ranks` and `steps` choose some of them (`"0-63,128"`). `ray` is the address of a Ray cluster
    (`"auto"`), whose tasks then read the files. What cannot be read is in `left_out`; only a job of
    which nothing can be read raises.
    """
    from foretrace.jobs.engines import local
    from foretrace.jobs.following import followed
    from foretrace.jobs.job import Job
    from foretrace.sources.folder import nothing_in

    bounds, wanted = limits or Limits(), numbers("--ranks", ranks)
    job = Job(os.fspath(path), numbers("--steps", steps))
    try:
        found = places(job.path, bounds)
        job.left_out.extend(found.left_out)
        answers = local.answers(found.files, bounds, cache)
        job.take(followed(answers, found.files), wanted)
        if not job.members:
            raise nothing_in(job.path, [each.text for each in job.left_out])
    except BaseException:
        job.close()
        raise
    return job
