"""A script as a Hugging Face Job: what is sent is built by `huggingface_hub`.

The files of a run lie in a private bucket. The job sees them as a folder and puts its traces beside
them, so it needs no token of its own; whoever may read the bucket can fetch them at any time.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from foretrace.base import notices
from foretrace.base.errors import ForetraceError, MissingError, UsageError
from foretrace.base.units import span_text
from foretrace.record.remote.plan import MOUNT, RemotePlan
from foretrace.schema.documents.remote import SentRequest

BUCKET = "foretrace-runs"
HIDDEN = "(not shown)"
YOU = "YOUR_NAME"  # in a dry run: only a token says whose account it is
ENDED = ("COMPLETED", "ERROR", "CANCELED", "DELETED")
POLL_S, STALLED_S, PRICE_S = 3.0, 60.0, 5.0
PATIENCE = 20  # polls in a row that may fail while a job runs
_PER_HOUR = {"second": 3600, "minute": 60, "hour": 1}
_INSTALL = "pip install 'foretrace[remote]'"


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


class _Caught(BaseException):
    """A request on its way out, stopped before it is sent."""


class HubJobs:
    """The jobs of one namespace: the account of the token, or the organization that is named."""

    def __init__(self, namespace: str | None = None) -> None:
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
        self._namespace = namespace

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

    def usd_per_hour(self, flavor: str) -> float | None:
        """What the Hub says that a flavor costs; None where it does not say."""
        self.session.timeout = PRICE_S
        try:
            kinds = {each.name: each for each in self.api.list_jobs_hardware(token=False)}
            kind = kinds[flavor]
            return round(float(kind.unit_cost_usd) * _PER_HOUR[str(kind.unit_label)], 4)
        except Exception:  # noqa: BLE001 - no answer, or one of another form: the price is unknown
            return None
        finally:
            self.session.timeout = STALLED_S

    def dry_request(self, plan: RemotePlan, options: JobOptions) -> SentRequest:
        """The request that `start` would send, caught before it leaves."""
        before = self.session.event_hooks
        self.session.event_hooks = {**before, "request": [_catch]}
        owner, values = self._namespace or YOU, dict.fromkeys(options.secrets, HIDDEN)
        try:
            self.api.run_job(**self._job(plan, owner, options, values), token=False)
        except _Caught as caught:
            request = caught.args[0]
            body = json.loads(request.content)
            return SentRequest(request.method, str(request.url), body)
        finally:
            self.session.event_hooks = before
        raise AssertionError("run_job sent no request")

    def start(self, plan: RemotePlan, options: JobOptions) -> Any:
        """Send the files, and start the job."""
        values, owner = secret_values(options.secrets), self.namespace
        bucket = f"{owner}/{BUCKET}"
        with self.answers():
            self.api.create_bucket(bucket, private=True, exist_ok=True)
            if not self.api.bucket_info(bucket).private:
                words = "is public: make it private, so that only you can read scripts and traces"
                raise UsageError(f"the bucket {bucket} {words}")
            sent = [(path, f"{plan.run}/code/{name}") for name, path in plan.files.items()]
            self.api.batch_bucket_files(bucket, add=sent)
            return self.api.run_job(**self._job(plan, owner, options, values))

    def _job(
        self, plan: RemotePlan, owner: str, options: JobOptions, secrets: dict[str, str]
    ) -> dict[str, Any]:
        place = {"type": "bucket", "source": f"{owner}/{BUCKET}", "mount_path": MOUNT}
        return {
            "image": options.image,
            "command": ["sh", "-c", plan.container(options.seconds)],
            "flavor": options.flavor,
            "timeout": options.seconds,
            "secrets": secrets or None,
            "labels": {"name": f"foretrace-{plan.run}"},
            "volumes": [self._volume(**place, path=plan.run, read_only=False)],
            "namespace": owner,
        }

    def wait(self, job: Any, say: Callable[[str], None]) -> Any:
        """Poll a job until it ended; a Hub that is away for a while is waited for."""
        started, stage, failures = time.monotonic(), "", 0
        while True:
            try:
                job, failures = self.job(job.id), 0
            except HubRefusal as problem:
                failures += 1
                if failures > PATIENCE or problem.status in (401, 403, 404):
                    raise
            if job.status.stage != stage:
                stage = stage_of(job)
                say(f"job {job.id}: {stage.lower()}")
            if stage in ENDED:
                return job
            notices.report(f"{stage.lower()}, {span_text(time.monotonic() - started)}")
            time.sleep(POLL_S)

    def job(self, number: str) -> Any:
        """What the Hub knows about a job."""
        owner = self.namespace
        with self.answers(f"job {owner}/{number}"):
            return self.api.inspect_job(job_id=number, namespace=owner)

    def log(self, number: str, lines: int = 12) -> list[str]:
        """The last lines of a job's log; none where there is no log."""
        try:
            texts = self.api.fetch_job_logs(job_id=number, namespace=self.namespace)
            return [line.rstrip("\n") for line in deque(texts, maxlen=lines)]
        except Exception:  # noqa: BLE001 - the log explains another failure, and must not hide it
            return []

    @contextmanager
    def answers(self, what: str = "") -> Iterator[None]:
        """Every refusal of the Hub as one line."""
        try:
            yield
        except ForetraceError:
            raise
        # the library raises its own errors, and those of the HTTP client below it
        except Exception as problem:
            raise self.refusal(problem, what) from problem

    def refusal(self, problem: Exception, what: str = "") -> HubRefusal:
        """What a failed request means, and what to do."""
        answer = getattr(problem, "response", None)
        status = getattr(answer, "status_code", None)
        said = getattr(problem, "server_message", None) or str(problem).strip().partition("\n")[0]
        head = f"{self.api.endpoint}: {what + ': ' if what else ''}"
        if status is None:
            return HubRefusal(f"{head}no answer: {said or type(problem).__name__}", None)
        hints = {
            401: "; the token is not valid: run hf auth login",
            402: "; the account has no credits for this flavor",
            403: "; the token may not do this: it needs the right to write, and to run jobs",
            404: "; check the name, or pass NAMESPACE/ID",
        }
        return HubRefusal(f"{head}{said} ({status}){hints.get(status, '')}", status)


def stage_of(job: Any) -> str:
    """The stage of a job, as the Hub spells it."""
    return str(getattr(job.status.stage, "value", job.status.stage))


def _catch(request: Any) -> None:
    if request.method != "POST":  # the library asks for a list of agents while it builds headers
        raise ConnectionError("a dry run sends nothing")
    raise _Caught(request)


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
