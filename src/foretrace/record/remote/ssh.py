"""A script on a host of one's own: plain `ssh`, with `tar` on both ends and nothing else."""

from __future__ import annotations

import io
import shlex
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import IO, Any

from foretrace.base.budget import Limits
from foretrace.base.errors import MissingError, UsageError
from foretrace.record.remote.plan import RUN_NAME, TRACES, Arrivals, RemotePlan
from foretrace.schema.documents.remote import RemoteDocument

RUNS = "foretrace-runs"  # in the home folder of the host
LONGEST = 4096  # of what a script prints without an end of line
# a shell that ssh starts may not have read the file that adds uv's folder
_UV = (
    'PATH="$HOME/.local/bin:$PATH" && { command -v uv >/dev/null || '
    "{ echo 'uv is not installed on this host: install it, or pass --python' >&2; exit 127; }; }"
)
REFUSED = 255  # what ssh itself returns when there is no connection


class SshHost:
    """One host, by the name that `ssh` knows it by; keys and addresses are in its settings."""

    def __init__(self, host: str) -> None:
        if not host or host.startswith("-") or not host.isprintable() or " " in host:
            raise UsageError(f"--ssh {host!r}: not the name of a host")
        self.host = host

    def explained(self, plan: RemotePlan, out: Path) -> RemoteDocument:
        """What would be sent and run, with the commands that do the same by hand."""
        sent, folder = ["tar", "-cf", "-"], out / plan.run
        for name, path in plan.files.items():
            sent += ["-C", str(path)[: -len(name)], name]
        unpacked = shlex.join(["tar", "-xf", "-", "-C", str(folder)])
        commands = [
            f"{shlex.join(sent)} | {self._line(_unpack(plan.run))}",
            self._line(_record(plan)),
            f"mkdir -p {shlex.quote(str(folder))} && {self._line(_pack(plan.run))} | {unpacked}",
        ]
        return RemoteDocument(1, self.host, plan.run, self._to(plan.run), plan.sent, commands)

    def record(self, plan: RemotePlan, show: Callable[[str], None]) -> int:
        """Send the files and run the script there; `show` gets each line that it prints."""
        with self._process(_unpack(plan.run), stdin=PIPE) as sending:
            assert sending.stdin is not None
            try:
                with tarfile.open(fileobj=sending.stdin, mode="w|") as archive:
                    for name, path in plan.files.items():
                        archive.add(path, name, recursive=False, filter=_anonymous)
                sending.stdin.close()
            except BrokenPipeError:
                pass  # the exit code says why
        self._check(sending.returncode, "the files were not taken")
        with self._process(_record(plan), stdout=PIPE, stderr=STDOUT) as recording:
            assert recording.stdout is not None
            with io.TextIOWrapper(recording.stdout, "utf-8", "replace") as printed:
                while line := printed.readline(LONGEST):
                    show(line.rstrip("\n"))
            code = recording.wait()
        self._check(code if code == REFUSED else 0, "the connection was lost")
        return code

    def fetched(
        self, run: str, out: Path, limits: Limits, plan: RemotePlan | None = None, code: int = 0
    ) -> RemoteDocument:
        """Bring the traces of a run back; `code` is the exit code of its script."""
        brought = self._fetch(run, out, limits).told()
        sent = (plan.sent, [_record(plan)]) if plan else ([], [])
        brought["notes"] += [f"the script ended with exit code {code}"] if code else []
        failed = bool(code) or not brought["traces"]
        return RemoteDocument(1, self.host, run, self._to(run), *sent, failed=failed, **brought)

    def _fetch(self, run: str, out: Path, limits: Limits) -> Arrivals:
        if not RUN_NAME.fullmatch(run):
            raise UsageError(f"--fetch {run!r}: not the name of a run")
        arrivals = Arrivals(out / run, limits)
        with self._process(_pack(run), stdout=PIPE) as sending:
            assert sending.stdout is not None
            try:
                _unpacked(sending.stdout, arrivals)
            except tarfile.TarError as problem:
                if sending.wait() == 0:
                    raise UsageError(f"{self.host}: not a tar archive: {problem}") from None
            finally:
                sending.stdout.close()
                sending.kill()
        if sending.returncode > 0 and not arrivals.brought:
            self._check(sending.returncode, f"no traces in ~/{RUNS}/{run}")
        return arrivals

    def _to(self, run: str) -> str:
        return f"{self.host}:{RUNS}/{run}"

    def _line(self, command: str) -> str:
        return shlex.join(["ssh", "--", self.host, command])

    def _process(self, command: str, stdin: int = DEVNULL, **pipes: Any) -> subprocess.Popen[bytes]:
        words = ["ssh", "--", self.host, command]
        try:
            return subprocess.Popen(words, stdin=stdin, **pipes)
        except FileNotFoundError:
            raise MissingError("ssh is not installed: install the OpenSSH client") from None

    def _check(self, code: int, what: str) -> None:
        if code:
            why = "ssh could not connect" if code == REFUSED else f"exit code {code}"
            raise UsageError(f"{self.host}: {what} ({why}); try: ssh {self.host} true")


def _unpack(run: str) -> str:
    return f"mkdir -p {RUNS}/{run} && tar -xf - -C {RUNS}/{run}"


def _record(plan: RemotePlan) -> str:
    lines = [plan.recording] if plan.python else [_UV, plan.installing, plan.recording]
    return " && ".join([f"cd {RUNS}/{plan.run}", *lines])


def _pack(run: str) -> str:
    return f"tar -cf - -C {RUNS}/{run}/{TRACES} ."


def _unpacked(stream: IO[bytes], arrivals: Arrivals) -> None:
    """Take the plain files of an archive; links, devices and the rest are nothing to be written."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            file = archive.extractfile(member) if member.isreg() else None
            if file is not None:
                arrivals.take(name, file.read)
            elif not member.isdir():
                arrivals.notes.append(f"{name}: not taken, it is not a plain file")


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Neither the user of this machine nor the rights of a file belong to what is sent."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
