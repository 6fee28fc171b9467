"""Jobs of many ranks: each file is reduced by itself, and the parts are joined."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from foretrace.analyze.jobs.places import numbers, places, wanted
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read.folder import nothing_in

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job
    from foretrace.analyze.jobs.parts import FileAnswer
    from foretrace.schema.documents.sets import LeftOut


def read(
    path: str | os.PathLike[str],
    *,
    ranks: str | None = None,
    steps: str | None = None,
    ray: str | None = None,
    limits: Limits | None = None,
    cache: bool = True,
) -> Job:
    """Read a job: a folder, a zip or a bucket (`s3://`, `gs://`, `hf://`) of its ranks' traces.

    `ranks` and `steps` choose some of them (`"0-63,128"`). `ray` is the address of a Ray cluster
    (`"auto"`), whose tasks then read the files. What cannot be read is in `left_out`; only a job of
    which nothing can be read raises.
    """
    from foretrace.analyze.jobs.following import followed
    from foretrace.analyze.jobs.job import Job

    chosen = numbers("--ranks", ranks)
    job = Job(os.fspath(path), numbers("--steps", steps))
    try:
        found = places(job.path, limits or Limits())
        job.left_out.extend(found.left_out)
        files = wanted(found.files, chosen)
        answers = _answers(files, found.limits, cache, ray)
        job.take(followed(answers, files), chosen)
        if not job.members:
            raise _nothing(job.path, job.left_out)
    except BaseException:
        job.close()
        raise
    return job


def _answers(
    files: dict[str, int], limits: Limits, cache: bool, ray: str | None
) -> Iterator[tuple[str, FileAnswer]]:
    if ray is not None:
        from foretrace.analyze.jobs.engines import ray_tasks

        return ray_tasks.answers(files, limits, cache, ray)
    from foretrace.analyze.jobs.engines import local

    return local.answers(files, limits, cache)


def _nothing(path: str, left_out: list[LeftOut]) -> TraceError:
    if [each.path for each in left_out] == [path]:
        return TraceError(left_out[0].code, path, left_out[0].text)
    return nothing_in(path, [each.text for each in left_out])
