"""A script as a Hugging Face Job: `huggingface_hub` builds and sends every request.

The files of a run lie in a private bucket. The job mounts its folder of the bucket and writes its
traces there, so it needs no token. Anyone who may read the bucket can fetch the traces later.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base import notices
from foretrace.base.budget import Limits
from foretrace.base.errors import ForetraceError, MissingError, UsageError
from foretrace.base.patterns import regex
from foretrace.base.units import span_text
from foretrace.record.remote.plan import (
    MOUNT,
    RUN_NAME,
    SUMS,
    TRACES,
    Arrivals,
    RemotePlan,
    checksums,
)
from foretrace.schema.documents.remote import RemoteDocument, SentRequest

BUCKET = "foretrace-runs"
YOU = "YOUR_NAME"  # in a dry run: only a token says whose account it is
ENDED = ("COMPLETED", "ERROR", "CANCELED", "DELETED")
POLL_S, STALLED_S, PRICE_S = 3.0, 60.0, 5.0
SETTLE_S, LIST_S = 60.0, 2.0  # a mounted bucket may send the last files after the job has ended
PATIENCE = 20  # polls in a row that may fail while a job runs
MOST_SUMS = 8 << 20
_PER_HOUR = {"second": 3600, "minute": 60, "hour": 1}
_INSTALL = "pip install 'foretrace[remote]'"
_BUCKET_NAME = regex(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_HINTS = {
    401: "; the token is not valid: run hf auth login",
    402: "; the account has no credits for this flavor",
    403: "; the token may not do this: it needs the right to write, and to run jobs",
    404: "; check the name, or pass NAMESPACE/ID",
}


class HubRefusal(UsageError):
    """The Hub refused or did not answer; `status` is its HTTP status, None without an answer."""

    def __init__(self, text: str, status: int | None) -> None:
        super().__init__(text)
        self.status = status


class JobOptions(Struct, frozen=True):
    """What a job runs on; `secrets` are names of environment variables."""

    flavor: str
    image: str
    seconds: int
    secrets: tuple[str, ...] = ()
    namespace: str | None = None


class HubJobs:
    """The jobs of one namespace: the account of the token, or the organization that is named."""

    def __init__(self, options: JobOptions) -> None:
        try:
            import huggingface_hub
            from huggingface_hub import HfApi, Volume
            from huggingface_hub.utils import disable_progress_bars
        except ImportError:
            words = f"a Hugging Face Job needs huggingface_hub 1.8 or later: {_INSTALL}"
            raise MissingError(words) from None
        self._library: Any = huggingface_hub
        self._volume: Any = Volume
        self.api: Any = HfApi(library_name="foretrace")
        self.session: Any = huggingface_hub.get_session()
        self.session.timeout = STALLED_S
        disable_progress_bars()
        self.options, self._namespace = options, options.namespace

    @property
    def namespace(self) -> str:
        """Whose jobs these are; raises without a token."""
        if not self._library.get_token():
            words = "no Hugging Face token: run hf auth login, or set HF_TOKEN"
            raise UsageError(f"{words}; --dry-run needs none")
        if self._namespace is None:
            with self.answers():
                self._namespace = str(self.api.whoami()["name"])
        return self._namespace

    def explained(self, plan: RemotePlan) -> RemoteDocument:
        """What would be sent and run, and what it costs; needs no account and starts nothing."""
        owner = self.options.namespace or YOU
        return RemoteDocument(
            1,
            "hub",
            plan.run,
            _address(f"{owner}/{BUCKET}", plan.run),
            plan.sent,
            plan.container(self.options.seconds).splitlines(),
            request=self._request(plan, owner),
            usd_per_hour=self._usd_per_hour(),
            notes=[] if self.options.namespace else [f"{YOU} becomes the account of your token"],
        )

    def _usd_per_hour(self) -> float | None:
        """What the Hub says that a flavor costs; None where it does not say."""
        self.session.timeout = PRICE_S
        try:
            kinds = {each.name: each for each in self.api.list_jobs_hardware(token=False)}
            kind = kinds[self.options.flavor]
            return round(float(kind.unit_cost_usd) * _PER_HOUR[str(kind.unit_label)], 4)
        except Exception:  # noqa: BLE001 - no answer, or one of another form: the price is unknown
            return None
        finally:
            self.session.timeout = STALLED_S

    def _request(self, plan: RemotePlan, owner: str) -> SentRequest:
        """The request that `start` would send, caught before it leaves."""
        before = self.session.event_hooks
        self.session.event_hooks = {**before, "request": [_catch]}
        values = dict.fromkeys(self.options.secrets, "(not shown)")
        try:
            self.api.run_job(**self._job(plan, owner, values), token=False)
        except _CaughtRequest as caught:
            request = caught.args[0]
            return SentRequest(request.method, str(request.url), json.loads(request.content))
        finally:
            self.session.event_hooks = before
        raise AssertionError("run_job sent no request")

    def start(self, plan: RemotePlan) -> StartedJob:
        """Send the files, and start the job."""
        values, owner = secret_values(self.options.secrets), self.namespace
        bucket = f"{owner}/{BUCKET}"
        with self.answers():
            self.api.create_bucket(bucket, private=True, exist_ok=True)
            if not self.api.bucket_info(bucket).private:
                words = "is public: make it private, so that only you can read scripts and traces"
                raise UsageError(f"the bucket {bucket} {words}")
            sent = [(path, f"{plan.run}/code/{name}") for name, path in plan.files.items()]
            self.api.batch_bucket_files(bucket, add=sent)
            info = self.api.run_job(**self._job(plan, owner, values))
        return StartedJob(self, info, plan)

    def _job(self, plan: RemotePlan, owner: str, secrets: dict[str, str]) -> dict[str, Any]:
        place = {"type": "bucket", "source": f"{owner}/{BUCKET}", "mount_path": MOUNT}
        return {
            "image": self.options.image,
            "command": ["sh", "-c", plan.container(self.options.seconds)],
            "flavor": self.options.flavor,
            "timeout": self.options.seconds,
            "secrets": secrets or None,
            "labels": {"name": f"foretrace-{plan.run}"},
            "volumes": [self._volume(**place, path=plan.run, read_only=False)],
            "namespace": owner,
        }

    def inspect(self, number: str) -> Any:
        """What the Hub knows about a job."""
        owner = self.namespace
        with self.answers(f"job {owner}/{number}"):
            return self.api.inspect_job(job_id=number, namespace=owner)

    @contextmanager
    def answers(self, what: str = "") -> Iterator[None]:
        """Raise every refusal of the Hub as one line that says what to do."""
        try:
            yield
        except ForetraceError:
            raise
        # the library raises its own errors, and those of the HTTP client below it
        except Exception as problem:
            status = getattr(getattr(problem, "response", None), "status_code", None)
            first = str(problem).strip().partition("\n")[0]
            said = getattr(problem, "server_message", None) or first
            head = f"{self.api.endpoint}: {what + ': ' if what else ''}"
            if status is None:
                text = f"{head}no answer: {said or type(problem).__name__}"
            else:
                text = f"{head}{said} ({status}){_HINTS.get(status, '')}"
            raise HubRefusal(text, status) from problem


class StartedJob:
    """One run as a job; `plan` is None where another process started it."""

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

    @property
    def stage(self) -> str:
        """The stage of the job, as the Hub spells it."""
        return str(getattr(self.info.status.stage, "value", self.info.status.stage))

    def wait(self, say: Callable[[str], None]) -> None:
        """Poll the job until it ended; while the Hub is away, keep asking for some time."""
        started, stage, failures = time.monotonic(), "", 0
        while True:
            try:
                self.info, failures = self.hub.inspect(self.info.id), 0
            except HubRefusal as problem:
                failures += 1
                if failures > PATIENCE or problem.status in (401, 403, 404):
                    raise
            if self.stage != stage:
                stage = self.stage
                say(f"job {self.info.id}: {stage.lower()}")
            if stage in ENDED:
                return
            notices.report(f"{stage.lower()}, {span_text(time.monotonic() - started)}")
            time.sleep(POLL_S)

    def document(self, **fetched: Any) -> RemoteDocument:
        """What is known now."""
        bucket, run = self._place()
        command, sent = self.info.command or [], self.plan.sent if self.plan else []
        lines = str(command[-1]).splitlines() if command else []
        known = {"job": self.name, "stage": self.stage, **fetched}
        return RemoteDocument(1, "hub", run, _address(bucket, run), sent, lines, **known)

    def fetched(self, out: Path, limits: Limits) -> RemoteDocument:
        """Bring back what the job recorded; if it failed, the end of its log says why."""
        arrivals, completed = self._fetch(out, limits), self.stage == "COMPLETED"
        brought, message = arrivals.told(), self.info.status.message
        failed = not (completed and brought["traces"])
        ended = f"the job ended as {self.stage}{': ' if message else ''}{message or ''}"
        log = self._log() if failed else []
        brought["notes"] += [] if completed else [ended]
        brought["notes"] += [] if brought["traces"] else ["the job wrote no trace"]
        brought["notes"] += [f"its log: {line}" for line in log]
        return self.document(failed=failed, log=log, **brought)

    def _place(self) -> tuple[str, str]:
        """The bucket and the folder of the run, as the job's own volume names them."""
        for each in self.info.volumes or ():
            named = RUN_NAME.fullmatch(each.path or "") and _BUCKET_NAME.fullmatch(each.source)
            if each.mount_path == MOUNT and named:
                return each.source, each.path
        raise UsageError(f"job {self.info.id} was not started by foretrace remote")

    def _fetch(self, out: Path, limits: Limits) -> Arrivals:
        """Bring the traces into a folder of their own below `out`."""
        from huggingface_hub import HfFileSystem

        bucket, run = self._place()
        # a listing that is remembered would hide the files that arrive later
        files: Any = HfFileSystem(skip_instance_cache=True, use_listings_cache=False)
        arrivals, found, sums = Arrivals(out / run, limits), self._settled(bucket, run), {}

        def stream(name: str) -> Any:
            return files.open(f"buckets/{bucket}/{run}/{name}", "rb", block_size=0)

        traces = sorted(name for name in found if name.startswith(f"{TRACES}/"))
        if SUMS in found:
            with self.hub.answers(SUMS), stream(SUMS) as file:
                sums = checksums(file.read(MOST_SUMS).decode("utf-8", "replace"))
        elif traces:
            arrivals.notes.append(f"the job wrote no {SUMS}: files may be missing or incomplete")
        for name in traces:
            with self.hub.answers(name), stream(name) as file:
                arrivals.take(name.removeprefix(f"{TRACES}/"), file.read, sums.get(name))
        missing = sorted(sums.keys() - found)
        arrivals.notes += [f"{name}: not in the bucket; fetch it again later" for name in missing]
        return arrivals

    def _settled(self, bucket: str, run: str) -> set[str]:
        """The names of the run's files, once the list of sums is there, or after some patience."""
        until = time.monotonic() + (SETTLE_S if self.stage == "COMPLETED" else 2 * LIST_S)
        while True:
            with self.hub.answers(f"bucket {bucket}"):
                tree = self.hub.api.list_bucket_tree(bucket, prefix=run, recursive=True)
                names = [each.path for each in tree]
            found = {name.removeprefix(f"{run}/") for name in names if name.startswith(f"{run}/")}
            if SUMS in found or time.monotonic() >= until:
                return found
            notices.report("waiting for the last files of the job")
            time.sleep(LIST_S)

    def _log(self) -> list[str]:
        """The last lines of the job's log; none where there is no log."""
        try:
            texts = self.hub.api.fetch_job_logs(job_id=self.info.id, namespace=self.hub.namespace)
            return [line.rstrip("\n") for line in deque(texts, maxlen=12)]
        except Exception:  # noqa: BLE001 - the log explains another failure, and must not hide it
            return []


def job_named(text: str, options: JobOptions) -> StartedJob:
    """The job of an id, of NAMESPACE/ID, or of the address of its page."""
    match = re.fullmatch(r"(?:https?://[^/]+/jobs/)?(?:(\w[\w.-]*)/)?(\w+)/?", text, re.ASCII)
    if match is None:
        raise UsageError(f"--fetch {text!r}: not the id of a job")
    hub = HubJobs(replace(options, namespace=match[1] or options.namespace))
    return StartedJob(hub, hub.inspect(match[2]))


def secret_values(names: tuple[str, ...]) -> dict[str, str]:
    """The values of the environment variables that become secrets of the job."""
    for name in names:
        if "=" in name:
            raise UsageError(
                "--secret takes a name alone: its value comes from the environment, so that no "
                "list of processes shows it"
            )
        if name not in os.environ:
            raise UsageError(f"--secret {name}: no such environment variable; export it first")
    return {name: os.environ[name] for name in names}


def _address(bucket: str, run: str) -> str:
    return f"hf://buckets/{bucket}/{run}/code"


class _CaughtRequest(BaseException):
    """A request on its way out, stopped before it is sent."""


def _catch(request: Any) -> None:
    if request.method != "POST":  # the library asks for a list of agents while it builds headers
        raise ConnectionError("a dry run sends nothing")
    raise _CaughtRequest(request)
