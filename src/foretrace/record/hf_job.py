"""A script recorded by a Hugging Face Job: `foretrace record --hf-job FLAVOR SCRIPT`.

The script, the Python files beside it, and this foretrace go to a private bucket of the account.
The job mounts its folder there, records beside it, and copies the traces and their sums back; it
gets no token. What comes back is untrusted: no name leads out of the folder, and nothing is run.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any

from msgspec import Struct

from foretrace.base import files
from foretrace.base.budget import Limits, raised_by
from foretrace.base.errors import ForetraceError, LimitError, MissingError, TraceError, UsageError
from foretrace.base.units import bytes_text
from foretrace.base.version import __version__

BUCKET, _MOUNT, _SUMS = "foretrace-runs", "/foretrace", "SHA256SUMS"
_VOLUME = {"type": "bucket", "mount_path": _MOUNT, "read_only": False}
POLL_S, SETTLE_S = 3.0, 60.0  # a mounted bucket may send the last files after the job has ended
PATIENCE = 20  # polls in a row that may fail while a job runs
_WHEEL = f"foretrace-{__version__}-py3-none-any.whl"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST_FILES, _PART = 1_000, re.compile(r"[\w+=@][\w.+=@-]{0,199}", re.ASCII)
# The bucket is no ordinary disk, so the script works beside it; the sums come last.
_JOB = """\
import hashlib, pathlib, shutil, subprocess, sys
out, home = pathlib.Path("{mount}"), pathlib.Path("/tmp/foretrace")
shutil.copytree(out / "code", home)
command = [sys.executable, "-m", "foretrace", "record", "--no-look", "-o", "traces", *{words!r}]
try:
    failed = subprocess.run(command, cwd=home, timeout={seconds}).returncode
except subprocess.TimeoutExpired:
    failed = 124
sums, found = [], home / "traces"
for file in sorted(found.rglob("*") if found.is_dir() else ()):
    if file.is_file():
        name = file.relative_to(home).as_posix()
        sums.append(hashlib.sha256(file.read_bytes()).hexdigest() + "  " + name + "\\n")
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, out / name)
(out / "{sums}").write_text("".join(sums))
sys.exit(failed)
"""


class JobPlan(Struct, frozen=True):
    """What one job gets; `files` are their names there and their paths here."""

    run: str
    flavor: str
    seconds: int
    files: dict[str, Path]
    dependencies: list[str]
    python: str | None
    secrets: tuple[str, ...]
    program: str

    def __str__(self) -> str:
        sent = "".join(f"\n  {name}" for name in self.files)
        return (
            f"run_uv_job on {self.flavor}, at most {self.seconds:,} s, as {self.run}\n"
            f"to the private bucket {BUCKET} of your account:{sent}\n"
            f"installed: {' '.join(self.dependencies)}\n"
            f"secrets: {' '.join(self.secrets) or 'none'}\nthe job's program:\n{self.program}"
        )


def plan_job(
    script: Path, words: list[str], flavor: str, timeout: str, secrets: tuple[str, ...]
) -> JobPlan:
    """What a script needs elsewhere; `words` follow `foretrace record` there."""
    if not script.is_file():
        raise UsageError(f"no such script: {script}")
    match = re.fullmatch(r"(\d{1,6})([smhd]?)", timeout)
    if match is None or not int(match[1]):
        raise UsageError(f"--timeout {timeout}: write a number and s, m, h or d, such as 30m")
    for name in secrets:
        if name not in os.environ:  # the value comes from there, so no list of processes shows it
            raise UsageError(f"--secret {name}: no such environment variable; export it first")
    metadata, seconds = inline_metadata(script), int(match[1]) * _UNITS[match[2]]
    from_index = distribution("foretrace").read_text("direct_url.json") is None
    own = f"foretrace=={__version__}" if from_index else f"{_MOUNT}/code/{_WHEEL}"
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", script.stem)[:24].strip("-") or "script"
    limit = max(seconds - 60, seconds // 2)  # the rest is to copy the traces
    return JobPlan(
        f"{stem}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{token_hex(3)}",
        flavor,
        seconds,
        {path.name: path for path in sorted(script.resolve().parent.glob("*.py"))},
        [own, "torch", *map(str, metadata.get("dependencies", ()))],
        metadata.get("requires-python"),
        secrets,
        _JOB.format(mount=_MOUNT, words=words, seconds=limit, sums=_SUMS),
    )


def inline_metadata(script: Path) -> dict[str, Any]:
    """The script's inline metadata (PEP 723): `dependencies`, `requires-python`; often empty."""
    text = f"\n{script.read_text('utf-8', 'replace')}\n"
    block, closed, _ = text.partition("\n# /// script\n")[2].partition("\n# ///\n")
    lines = block.split("\n")
    if not closed or any(line[:2] not in ("#", "# ") for line in lines):
        return {}
    try:
        return tomllib.loads("\n".join(line[2:] for line in lines))
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(f"{script}: its inline metadata: {problem}") from None


def own_wheel() -> bytes:
    """This foretrace as a wheel, for a checkout that no index has; without its recordings."""
    about, buffer = f"foretrace-{__version__}.dist-info", io.BytesIO()
    installed, package = distribution("foretrace"), Path(__file__).parents[1]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            name = path.relative_to(package.parent).as_posix()
            data = "recordings" in name.split("/")[:-1] and path.suffix != ".py"
            if path.is_file() and "__pycache__" not in path.parts and not data:
                archive.write(path, name)
        for name in ("METADATA", "WHEEL", "entry_points.txt"):
            archive.writestr(f"{about}/{name}", installed.read_text(name) or "")
        archive.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in archive.namelist()))
    return buffer.getvalue()


def run_job(plan: JobPlan, out: Path, limits: Limits, say: Callable[[str], None]) -> list[Path]:
    """Run the job, wait for it, and bring its files into a folder of their own below `out`."""
    try:
        from huggingface_hub import HfApi, Volume, get_token
    except ImportError:
        words = "needs huggingface_hub 1.8 or later: pip install 'foretrace[hf]'"
        raise MissingError(f"--hf-job {words}") from None
    if not get_token():
        raise UsageError("no Hugging Face token: run hf auth login, or set HF_TOKEN")
    api: Any = HfApi(library_name="foretrace")
    with _refusals(api), files.scratch() as folder:
        owner = api.whoami()["name"]
        bucket = f"{owner}/{BUCKET}"
        api.create_bucket(bucket, private=True, exist_ok=True)
        if not api.bucket_info(bucket).private:
            raise UsageError(f"the bucket {bucket} is public: make it private, it holds your code")
        own = {_WHEEL: own_wheel()} if plan.dependencies[0].endswith(_WHEEL) else {}
        sent = [(each, f"{plan.run}/code/{name}") for name, each in {**plan.files, **own}.items()]
        api.batch_bucket_files(bucket, add=sent)
        (folder / "foretrace_job.py").write_text(plan.program, encoding="utf-8")
        job = api.run_uv_job(
            str(folder / "foretrace_job.py"),
            dependencies=plan.dependencies,
            python=plan.python,
            flavor=plan.flavor,
            timeout=plan.seconds,
            secrets={name: os.environ[name] for name in plan.secrets} or None,
            labels={"name": f"foretrace-{plan.run}"},
            volumes=[Volume(source=bucket, path=plan.run, **_VOLUME)],
            namespace=owner,
        )
    say(f"{owner}/{job.id}: {job.url}; Ctrl+C leaves it running: hf jobs cancel {owner}/{job.id}")
    stage = _wait(api, job.id, owner, say)
    with _refusals(api):
        brought = _fetch(api, bucket, plan.run, out, limits)
        if stage != "COMPLETED":
            for line in [*api.fetch_job_logs(job_id=job.id, namespace=owner)][-12:]:
                say(f"its log: {line.rstrip()}")
        if stage != "COMPLETED" or not brought:
            brought_text = (
                f"{len(brought)} files are in {out / plan.run}" if brought else "no trace"
            )
            raise UsageError(f"the job ended as {stage}; {brought_text}")
    return brought


@contextmanager
def _refusals(api: Any) -> Iterator[None]:
    """Every refusal of the Hub as one line that says what to do."""
    try:
        yield
    except ForetraceError:
        raise
    except Exception as problem:  # the library's own, and those of the HTTP client below it
        status = getattr(getattr(problem, "response", None), "status_code", None)
        first = str(problem).strip().partition("\n")[0] or repr(problem)
        hint = (
            "; the token must be valid, and may write and run jobs" if status in (401, 403) else ""
        )
        told = f"{first} ({status}){hint}" if status else f"no answer: {first}"
        raise UsageError(f"{api.endpoint}: {told}") from problem


def _wait(api: Any, number: str, owner: str, say: Callable[[str], None]) -> str:
    """Poll the job until it ended; while the Hub is away, keep asking for some time."""
    stage, failures = "", 0
    while True:
        try:
            with _refusals(api):
                found = api.inspect_job(job_id=number, namespace=owner).status.stage
            before, stage, failures = stage, str(getattr(found, "value", found)), 0
            if stage != before:
                say(f"job {number}: {stage.lower()}")
        except UsageError:
            failures += 1
            if failures > PATIENCE:
                raise
        if stage in ("COMPLETED", "ERROR", "CANCELED", "DELETED"):
            return stage
        time.sleep(POLL_S)


def _fetch(api: Any, bucket: str, run: str, out: Path, limits: Limits) -> list[Path]:
    """Bring the traces of a run back; each has the sum that the job wrote."""
    until, found = time.monotonic() + SETTLE_S, dict[str, int]()
    while _SUMS not in found:
        tree = api.list_bucket_tree(bucket, prefix=run, recursive=True)
        found = {each.path.removeprefix(f"{run}/"): getattr(each, "size", 0) for each in tree}
        if time.monotonic() >= until:
            return []
        time.sleep(0 if _SUMS in found else POLL_S)
    with files.scratch() as folder:
        api.download_bucket_files(bucket, [(f"{run}/{_SUMS}", folder / _SUMS)])
        lines = (folder / _SUMS).read_text("utf-8", "replace").splitlines()
        sums = {line[66:]: line[:64] for line in lines if len(line) > 66}
        size = sum(found[name] for name in sums.keys() & found.keys())
        if size > limits.bytes or len(sums) > _MOST_FILES:
            what = f"{len(sums):,} files of {bytes_text(size)} in one run are too many"
            raise LimitError("E_TOO_BIG", run, what, hint=raised_by("bytes"))
        brought = []
        for number, (name, digest) in enumerate(sums.items()):
            parts = PurePosixPath(name).parts
            if parts[:1] != ("traces",) or not all(map(_PART.fullmatch, parts)):
                raise TraceError("E_CHANGED", name, "its name allows no place of its own")
            here, target = folder / str(number), out.joinpath(run, *parts[1:])
            api.download_bucket_files(bucket, [(f"{run}/{name}", here)])
            content = here.read_bytes() if here.is_file() else b""
            if hashlib.sha256(content).hexdigest() != digest:
                raise TraceError("E_CHANGED", name, "arrived damaged", hint="record it again")
            target.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(target, content)
            brought.append(target)
    return brought
