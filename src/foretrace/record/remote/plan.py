"""What another machine needs and runs: files, packages, the script under `foretrace record`.

Of the script's folder only the modules that it imports are sent: a folder may hold keys and data. A
foretrace that no index has is sent as a wheel, without its recordings. What comes back is
untrusted: a name never leads out of the folder, the files together stay below the limit on bytes,
and nothing is run.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import re
import shlex
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import takewhile
from pathlib import Path
from secrets import token_hex
from typing import Any

from msgspec import Struct

from foretrace.base import files, notices
from foretrace.base.budget import Limits, raised_by
from foretrace.base.errors import LimitError, TraceError, UsageError
from foretrace.base.patterns import regex
from foretrace.base.units import bytes_text
from foretrace.base.version import __version__
from foretrace.read import entries
from foretrace.read.folder import searched
from foretrace.schema.documents.remote import SentFile

TRACES, SUMS = "traces", "SHA256SUMS"
RUN_NAME = regex(r"\w[\w.-]*", re.ASCII)
MOUNT = "/foretrace"  # where a job sees the folder of its run in the bucket
_WORK, VENV = "/tmp/foretrace", ".venv"
_UV = "command -v uv >/dev/null || python -m pip install --quiet uv || exit 1"
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TO_COPY_S = 60  # of a job's time: a job that is ended from outside brings nothing back
_OPENS = "# /// script"
_PACKAGE = Path(__file__).parents[2]
_DATE = (1980, 1, 1, 0, 0, 0)  # the same sources give the same bytes


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
    for each in needed:
        if not isinstance(each, str) or each.lstrip().startswith("-") or not each.isprintable():
            raise UsageError(f"{each!r} is no package: an option of the installer is not sent")
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


def needed_files(script: Path, included: tuple[str, ...] = ()) -> dict[str, Path]:
    """Names below the script's folder, and their files: the script, what it imports, and more."""
    if not script.is_file():
        raise UsageError(f"no such script: {script}")
    home, found, waiting = script.resolve().parent, dict[Path, None](), [script.resolve()]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            waiting += _beside(path, home) if path.suffix == ".py" else []
    for each in included:
        found |= dict.fromkeys(_included(Path(each), home))
    return {path.relative_to(home).as_posix(): path for path in found}


def _beside(path: Path, home: Path) -> Iterator[Path]:
    """The modules and packages of the script's folder that a file imports."""
    for name in imported_names(path):
        if (home / f"{name}.py").is_file():
            yield home / f"{name}.py"
        elif (home / name / "__init__.py").is_file():
            yield from sorted((home / name).rglob("*.py"))


def imported_names(path: Path) -> set[str]:
    """The top names of everything a file imports, also inside functions."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as problem:
        raise UsageError(f"{path}: not a Python script: {problem}") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _included(path: Path, home: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"--include {path}: no such file or folder")
    path = path.resolve()
    if not path.is_relative_to(home):
        raise UsageError(f"--include {path}: not below {home}, the folder of the script")
    every = [path] if path.is_file() else sorted(path.rglob("*"))
    return [each for each in every if each.is_file()]


def inline_metadata(script: Path) -> dict[str, Any]:
    """The script's inline metadata (PEP 723): `dependencies`, `requires-python`; often empty."""
    lines = script.read_text(encoding="utf-8", errors="replace").splitlines()
    after = lines[lines.index(_OPENS) + 1 :] if _OPENS in lines else []
    block = list(takewhile(lambda line: line == "#" or line.startswith("# "), after))
    while block and block[-1] != "# ///":  # the last line that can close it does
        block.pop()
    try:
        return tomllib.loads("\n".join(line[2:] for line in block[:-1]))
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(f"{script}: its inline metadata (PEP 723): {problem}") from None


def own_requirement() -> str | Path:
    """What installs this foretrace elsewhere: a version of an index, or a wheel made here."""
    try:
        installed = distribution("foretrace")
    except PackageNotFoundError:
        return f"foretrace=={__version__}"
    place = entries.folder()
    if installed.read_text("direct_url.json") is None or place is None:
        return f"foretrace=={__version__}"
    wheel = place / "remote" / f"foretrace-{__version__}-py3-none-any.whl"
    wheel.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write_bytes(wheel, packed(installed))
    return wheel


def packed(installed: Distribution) -> bytes:
    """The package and what its installation says about it, as a wheel."""
    about, record, buffer = f"foretrace-{__version__}.dist-info", [], io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        told = {
            f"{about}/{name}": (installed.read_text(name) or "").encode()
            for name in ("METADATA", "WHEEL", "entry_points.txt")
        }
        for name, content in (*_sources(), *told.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record.append(f"{name},sha256={digest.decode()},{len(content)}\n")
        record.append(f"{about}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{about}/RECORD", _DATE), "".join(record))
    return buffer.getvalue()


def _sources() -> Iterator[tuple[str, bytes]]:
    for path in sorted(_PACKAGE.rglob("*")):
        name = path.relative_to(_PACKAGE.parent).as_posix()
        data = "recordings" in name.split("/")[:-1] and path.suffix != ".py"
        if path.is_file() and "__pycache__" not in path.parts and not data:
            yield name, path.read_bytes()


BLOCK = 1 << 20
MOST_FILES, MOST_PARTS, LONGEST = 10_000, 12, 200


class Arrivals:
    """Takes the files of one run into `folder`; `notes` says what was not taken, and why."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.brought: dict[str, Path] = {}
        self.notes: list[str] = []
        self._bytes = 0

    def take(self, name: str, read: Callable[[int], bytes], checksum: str | None = None) -> None:
        """Write one file, as long as `read` gives bytes."""
        target = self._place(name)
        if target is None:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with files.replacing(target) as draft, draft.open("xb") as file:
            while block := read(BLOCK):
                self._bytes += len(block)
                notices.report(f"fetching {name}: {bytes_text(self._bytes)}")
                if self._bytes > self.limits.bytes:
                    what = f"more than {bytes_text(self.limits.bytes)} in one run"
                    raise LimitError("E_TOO_BIG", name, what, hint=raised_by("bytes"))
                digest.update(block)
                file.write(block)
        if checksum and digest.hexdigest() != checksum:
            target.unlink()
            raise TraceError("E_CHANGED", name, "arrived damaged", hint="fetch it again")
        self.brought[name] = target

    def told(self) -> dict[str, Any]:
        """As documents list it: what was brought, which of it are traces by content, notes."""
        here = dict.fromkeys(str(path) for path in self.brought.values())
        found = searched(str(self.folder), self.limits) if here else None
        traces = [path for path in (found.traces if found else ()) if path in here]
        return {"brought": [*here], "traces": traces, "notes": [*self.notes]}

    def _place(self, name: str) -> Path | None:
        """Where a file goes; None, with a note, where its name allows no place."""
        if len(self.brought) >= MOST_FILES:
            raise LimitError("E_MEMBERS", str(self.folder), f"more than {MOST_FILES:,} files")
        parts = [re.sub(r"[^\w.+=@-]", "_", part, flags=re.ASCII) for part in name.split("/")]
        odd = any(part.strip(".") == "" or len(part) > LONGEST for part in parts)
        target = self.folder.joinpath(*parts)
        if odd or len(parts) > MOST_PARTS or target in self.brought.values():
            self.notes.append(f"{name}: not taken, its name allows no place of its own")
            return None
        if any(target.parents[depth].is_symlink() for depth in range(len(parts) - 1)):
            self.notes.append(f"{name}: not taken, a link is in its place")
            return None
        return self._apart(name, parts)

    def _apart(self, name: str, parts: list[str]) -> Path:
        """The place of a file; another one where a name is both a file and a folder."""
        place = self.folder
        for number, part in enumerate(parts):
            is_file = number == len(parts) - 1
            while (place / part).is_dir() if is_file else place / part in self.brought.values():
                part += "_"
            place /= part
        if place != self.folder.joinpath(*parts):
            self.notes.append(f"{name}: kept as {place.name}, its name is a file and a folder")
        return place


def checksums(text: str) -> dict[str, str]:
    """The lines of `sha256sum`: a name to its sum; a line of another form counts for nothing."""
    lines = (re.fullmatch(r"\\?([0-9a-f]{64}) [ *](.+)", line) for line in text.splitlines())
    return {line[2]: line[1] for line in lines if line is not None}
