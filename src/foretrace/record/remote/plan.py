"""What another machine runs: packages, the script under `foretrace record`, and the way back."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from secrets import token_hex

from msgspec import Struct

from foretrace.base.errors import UsageError
from foretrace.record.remote.scripts import inline_metadata, needed_files
from foretrace.record.remote.wheel import own_requirement
from foretrace.schema.documents.remote import SentFile

TRACES, SUMS = "traces", "SHA256SUMS"
RUN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
MOUNT = "/foretrace"  # where a job sees the folder of its run in the bucket
_WORK, VENV = "/tmp/foretrace", ".venv"
_UV = "command -v uv >/dev/null || python -m pip install --quiet uv || exit 1"
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TO_COPY_S = 60  # of a job's time: a job that is ended from outside brings nothing back


class RemotePlan(Struct, frozen=True):
    """A script to run elsewhere; `files` are its name there and its path here."""

    run: str
    script: str
    arguments: tuple[str, ...]
    files: dict[str, Path]
    packages: tuple[str, ...]
    python: str = ""
    requires_python: str = ""
    record: tuple[str, ...] = ()

    @property
    def sent(self) -> list[SentFile]:
        """The files with their sizes, as documents list them."""
        return [SentFile(name, path.stat().st_size) for name, path in self.files.items()]

    @property
    def installing(self) -> str:
        """The command that installs what the script needs, in the folder of its files."""
        if self.python:
            return f"{self.python} -m pip install --quiet {shlex.join(self.packages)}"
        chosen = ["--python", self.requires_python] if self.requires_python else []
        venv = shlex.join(["uv", "venv", "--quiet", *chosen, VENV])
        return f"{venv} && uv pip install --quiet --python {VENV} {shlex.join(self.packages)}"

    @property
    def recording(self) -> str:
        """The command that records the script, after `installing`."""
        program = f"{self.python} -m foretrace" if self.python else f"{VENV}/bin/foretrace"
        words = ["--no-look", "-o", TRACES, *self.record, self.script, *self.arguments]
        return f"{program} record {shlex.join(words)}"

    def container(self, seconds: int) -> str:
        """What the container of a job runs: it ends the script in time to save its traces."""
        limit = max(seconds - _TO_COPY_S, seconds // 2)
        # The bucket is no ordinary disk, so the script works beside it; the sums come last and say
        # that everything is there.
        return "\n".join(
            [
                f"end=$(($(date +%s) + {limit}))",
                f"cp -R {MOUNT}/code {_WORK} && cd {_WORK} || exit 1",
                *([] if self.python else [_UV]),
                f"{self.installing} || exit 1",
                f"timeout -k 10 $((end - $(date +%s))) {self.recording}",
                f"code=$?; mkdir -p {TRACES}",
                f"find {TRACES} -type f -exec sha256sum {{}} + > {SUMS}",
                f"cp -R {TRACES} {MOUNT}/ && cp {SUMS} {MOUNT}/ || exit 1",
                "exit $code",
            ]
        )


def plan_run(
    script: Path,
    arguments: tuple[str, ...],
    *,
    packages: tuple[str, ...] = (),
    included: tuple[str, ...] = (),
    install: str | None = None,
    installs: bool = True,
    python: str = "",
    record: str = "",
) -> RemotePlan:
    """Everything that one script needs elsewhere, under a name of its own."""
    files, metadata = needed_files(script, included), inline_metadata(script)
    needed = [*metadata.get("dependencies", ()), *packages]
    if installs:
        foretrace = install or str(own_requirement())
        if foretrace.endswith(".whl"):
            wheel = Path(foretrace).resolve()
            if not wheel.is_file():
                raise UsageError(f"--install {foretrace}: no such file")
            files[wheel.name], foretrace = wheel, f"./{wheel.name}"
        needed = [foretrace, "torch", *needed]
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", script.stem)[:24].strip("-") or "script"
    return RemotePlan(
        run=f"{stem}-{stamp}-{token_hex(3)}",
        script=script.name,
        arguments=arguments,
        files=files,
        packages=tuple(dict.fromkeys(needed)),
        python=python,
        requires_python=str(metadata.get("requires-python", "")),
        record=tuple(shlex.split(record)),
    )


def seconds_of(text: str) -> int:
    """`90`, `30m`, `2h` in seconds."""
    match = re.fullmatch(r"(\d+)([smhd]?)", text)
    if match is None or not int(match[1]):
        raise UsageError(f"--timeout {text}: write a number and s, m, h or d, such as 30m")
    return int(match[1]) * _SECONDS[match[2]]
