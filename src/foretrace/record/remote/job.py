"""One run as a Hugging Face Job, from its plan to its traces."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foretrace.base.budget import Limits
from foretrace.base.errors import UsageError
from foretrace.record.remote.bucket import RunPlace, fetch, run_place
from foretrace.record.remote.hub import BUCKET, YOU, HubJobs, JobOptions, stage_of
from foretrace.record.remote.plan import RemotePlan
from foretrace.schema.documents.remote import RemoteDocument


class StartedJob:
    """A job of this account; `plan` is None where another process started it."""

    def __init__(self, hub: HubJobs, info: Any, plan: RemotePlan | None = None) -> None:
        self.hub, self.info, self.plan = hub, info, plan

    @property
    def name(self) -> str:
        """What `--fetch` and `hf jobs` take."""
        return f"{self.hub.namespace}/{self.info.id}"

    @property
    def later(self) -> str:
        """How to come back to a job that is left alone."""
        return f"fetch: foretrace remote --fetch {self.name}; cancel: hf jobs cancel {self.name}"

    def wait(self, say: Callable[[str], None]) -> None:
        """Wait until it ended."""
        self.info = self.hub.wait(self.info, say)

    def document(self, **fetched: Any) -> RemoteDocument:
        """What is known now."""
        plan, command, place = self.plan, self.info.command or [], run_place(self.info)
        sent = (place.path, place.address, plan.sent if plan else [])
        lines = str(command[-1]).splitlines() if command else []
        known = {"job": self.name, "stage": stage_of(self.info), **fetched}
        return RemoteDocument(1, "hub", *sent, lines, **known)

    def fetched(self, out: Path, limits: Limits) -> RemoteDocument:
        """Bring back what it recorded; where it failed, the end of its log says why."""
        arrivals, stage = fetch(self.hub, self.info, out, limits), stage_of(self.info)
        traces = arrivals.traces
        failed = stage != "COMPLETED" or not traces
        reasons = [] if stage == "COMPLETED" else [f"the job ended as {stage}{self._reason()}"]
        reasons += [] if traces else ["the job wrote no trace"]
        log = self.hub.log(self.info.id) if failed else []
        return self.document(
            failed=failed,
            log=log,
            brought=[str(path) for path in arrivals.brought.values()],
            traces=traces,
            notes=[*arrivals.notes, *reasons, *(f"its log: {line}" for line in log)],
        )

    def _reason(self) -> str:
        return f": {self.info.status.message}" if self.info.status.message else ""


def started(plan: RemotePlan, options: JobOptions) -> StartedJob:
    """Send the files and start the job."""
    hub = HubJobs(options.namespace)
    return StartedJob(hub, hub.start(plan, options), plan)


def found(text: str, options: JobOptions) -> StartedJob:
    """The job of an id, of NAMESPACE/ID, or of the address of its page."""
    match = re.fullmatch(r"(?:https?://[^/]+/jobs/)?(?:(\w[\w.-]*)/)?(\w+)/?", text, re.ASCII)
    if match is None:
        raise UsageError(f"--fetch {text!r}: not the id of a job")
    hub = HubJobs(match[1] or options.namespace)
    return StartedJob(hub, hub.job(match[2]))


def explained(plan: RemotePlan, options: JobOptions) -> RemoteDocument:
    """What would be sent and run, and what it costs; needs no account."""
    hub = HubJobs(options.namespace)
    notes = [] if options.namespace else [f"{YOU} becomes the account of your token"]
    return RemoteDocument(
        1,
        "hub",
        plan.run,
        RunPlace(f"{options.namespace or YOU}/{BUCKET}", plan.run).address,
        plan.sent,
        plan.container(options.seconds).splitlines(),
        request=hub.dry_request(plan, options),
        usd_per_hour=hub.usd_per_hour(options.flavor),
        notes=notes,
    )
