"""The traces of a job, from its bucket to a folder here."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from foretrace.base import notices
from foretrace.base.budget import Limits
from foretrace.base.errors import UsageError
from foretrace.record.remote.arrivals import Arrivals, checksums
from foretrace.record.remote.hub import HubJobs, stage_of
from foretrace.record.remote.plan import MOUNT, RUN_NAME, SUMS, TRACES

SETTLE_S, POLL_S = 60.0, 2.0  # a mounted bucket may send the last files after the job has ended
MOST_SUMS = 8 << 20
_BUCKET = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


class RunPlace(NamedTuple):
    """The folder of one run in a bucket."""

    bucket: str
    path: str

    @property
    def address(self) -> str:
        """Where the job's code is, as `hf` takes it."""
        return f"hf://buckets/{self.bucket}/{self.path}/code"


def run_place(job: Any) -> RunPlace:
    """The folder of a job's run, as its own volume names it."""
    for each in job.volumes or ():
        names = RUN_NAME.fullmatch(each.path or "") and _BUCKET.fullmatch(each.source)
        if each.mount_path == MOUNT and names:
            return RunPlace(each.source, each.path)
    raise UsageError(f"job {job.id} was not started by foretrace remote")


class RunFiles:
    """The files of one run in its bucket."""

    def __init__(self, hub: HubJobs, place: RunPlace) -> None:
        from huggingface_hub import HfFileSystem

        self.hub, self.bucket, self.run = hub, place.bucket, place.path
        # a listing that is remembered would hide the files that arrive later
        self._files: Any = HfFileSystem(skip_instance_cache=True, use_listings_cache=False)

    def listed(self) -> dict[str, int]:
        """The names of the files below the run's folder, with their sizes."""
        head = f"{self.run}/"
        with self.hub.answers(f"bucket {self.bucket}"):
            tree = self.hub.api.list_bucket_tree(self.bucket, prefix=self.run, recursive=True)
            found = {each.path: int(getattr(each, "size", 0) or 0) for each in tree}
        return {
            name.removeprefix(head): size for name, size in found.items() if name.startswith(head)
        }

    def settled(self, patience: float) -> dict[str, int]:
        """The files, once the job's list of sums is there, or after some patience."""
        until = time.monotonic() + patience
        while SUMS not in (found := self.listed()) and time.monotonic() < until:
            notices.report("waiting for the last files of the job")
            time.sleep(POLL_S)
        return found

    def opened(self, name: str) -> Any:
        """A file as a stream."""
        return self._files.open(f"buckets/{self.bucket}/{self.run}/{name}", "rb", block_size=0)


def fetch(hub: HubJobs, job: Any, out: Path, limits: Limits) -> Arrivals:
    """Bring the traces of a job into a folder of their own below `out`."""
    there = RunFiles(hub, run_place(job))
    arrivals = Arrivals(out / there.run, limits)
    found = there.settled(SETTLE_S if stage_of(job) == "COMPLETED" else 2 * POLL_S)
    sums = _sums(there) if SUMS in found else {}
    if SUMS not in found and any(name.startswith(f"{TRACES}/") for name in found):
        arrivals.notes.append(f"the job wrote no {SUMS}: files may be missing or incomplete")
    for name in sorted(found):
        if name.startswith(f"{TRACES}/"):
            with hub.answers(name), there.opened(name) as file:
                arrivals.take(name.removeprefix(f"{TRACES}/"), file.read, sums.get(name))
    missing = sorted(sums.keys() - found.keys())
    arrivals.notes += [f"{name}: not in the bucket; fetch it again later" for name in missing]
    return arrivals


def _sums(there: RunFiles) -> dict[str, str]:
    with there.hub.answers(SUMS), there.opened(SUMS) as file:
        return checksums(file.read(MOST_SUMS).decode("utf-8", "replace"))
