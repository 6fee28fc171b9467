"""Jobs of many ranks: each file is reduced by itself, and the parts are joined.

with jobs.read("traces/") as job:
    document = summarize(job)  # jobs/summary.py: every analysis, and the verdict
print(text(first_screen(document)))  # jobs/lines.py: the tables of the answer
"""

from __future__ import annotations

import os

from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.base.units import plural
from foretrace.jobs import reading
from foretrace.jobs.whole_job import Job
from foretrace.read.door import Opened, nothing_in, open_any


def read(
    path: str | os.PathLike[str] | Opened,
    *,
    ranks: str | None = None,
    steps: str | None = None,
    ray: str | None = None,
    limits: Limits | None = None,
    cache: bool = True,
) -> Job:
    """Read a job: a folder, a zip or a bucket (`s3://`, `gs://`, `hf://`) of its ranks' traces.

    `ranks` and `steps` choose some of them (`"0-63,128"`). `ray` is the address of a Ray cluster
    (`"auto"`), whose tasks then read the files. `left_out` lists the files that cannot be read. If
    no file can be read, this raises.
    """
    chosen = reading.numbers("--ranks", ranks)
    of_steps, bounds = reading.numbers("--steps", steps), limits or Limits()
    opened = open_any(path, bounds, by_name=True)
    job = Job(opened.path, of_steps)
    try:
        found = reading.list_files(opened, bounds)
        job.left_out.extend(found.left_out)
        files = reading.of_ranks(found.files, chosen)
        if ray is None:
            answers = reading.local_answers(files, found.limits, cache)
        else:
            answers = reading.ray_answers(files, found.limits, cache, ray)
        job.take(reading.read_progress(answers, files), chosen)
        if not job.members:
            raise _nothing_read(job)
    except BaseException:
        job.close()
        raise
    return job


def _nothing_read(job: Job) -> TraceError:
    if [each.path for each in job.left_out] == [job.path]:
        return TraceError(job.left_out[0].code, job.path, job.left_out[0].text)
    if lost := [each for each in job.left_out if each.text == reading.LOST]:
        what = f"{len(lost)} of {plural(len(job.left_out), 'file')} lost with their Ray workers"
        return TraceError(
            "E_UNREADABLE",
            job.path,
            f"{what}, none was read",
            hint="see `ray status`, or read without --ray",
        )
    return nothing_in(job.path, [each.text for each in job.left_out])
