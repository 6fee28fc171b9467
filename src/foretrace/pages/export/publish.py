"""Copies of traces that others may see, in a folder or in a bucket of the Hugging Face Hub.

A copy's name has eight letters made from the trace and from what was kept. So a second run knows
which copies are there, and nothing is ever replaced by something else.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from foretrace.base import files
from foretrace.base.budget import Limits, waiting
from foretrace.base.errors import MissingError, UsageError
from foretrace.pages.export import chrome
from foretrace.pages.export.allowed import KEEP, AllowList
from foretrace.pages.export.handoff import PERFETTO
from foretrace.read import captures, compiler
from foretrace.read.door import Opened, SnapshotFile, TraceFolder, nothing_in, open_any
from foretrace.trace import opening
from foretrace.trace.trace import Trace

_BLOCK = 1 << 20


class SharedCopy(Struct, frozen=True):
    """One copy; `there` when an earlier run had made it, `hashed` is how many texts are hashes."""

    source: str
    place: str
    there: bool
    hashed: int
    regions: tuple[str, ...]
    lost_data: bool
    notes: tuple[str, ...] = ()
    perfetto: str | None = None


def parse_keep(text: str) -> frozenset[str]:
    """`"stacks,names"` -> the set; an unknown word is a usage error that lists the known ones."""
    wanted = frozenset(word.strip() for word in text.split(",") if word.strip())
    if wanted - set(KEEP):
        listed = "; ".join(f"{name}: {meaning}" for name, meaning in KEEP.items())
        raise UsageError(f"--keep {text}: unknown; choose from {listed}")
    return wanted


def copies(
    path: str | Opened,
    target: Folder | HubBucket,
    keep: frozenset[str] = frozenset(),
    limits: Limits | None = None,
    *,
    cache: bool = True,
) -> Iterator[SharedCopy]:
    """Copy one trace, or every trace of a folder or zip."""
    limits = limits or Limits()
    found = open_any(path, limits)
    if isinstance(found, SnapshotFile):
        why = "a memory snapshot is not copied: its stacks name your files and functions"
        raise UsageError(f"{found.path}: {why}; foretrace memory FILE --html PAGE shows it")
    traces = found.traces if isinstance(found, TraceFolder) else [found.path]
    if not traces:
        raise nothing_in(found.path, [])
    allowed, there = AllowList(keep), target.names()
    with files.scratch() as folder:
        for each in traces:
            trace = opening.open_file(each, limits, cache)
            before, name = len(allowed.hashed), f"{_stem(trace, keep)}.json.gz"
            if name not in there:
                copy = redact(trace, folder, allowed, name)
                for file in (*captured(copy), copy):  # where the trace is, its captures are
                    target.put(file, file.relative_to(folder).as_posix())
            count = len(allowed.hashed) - before
            regions = dict.fromkeys(allowed.name(span.name) for span in trace.spans.regions)
            yield SharedCopy(
                each,
                target.place(name),
                name in there,
                count,
                tuple(name for name in regions if not name.startswith("hidden_")),
                trace.ledger.lost_data,
                tuple(_not_copied(each)),
                target.perfetto(name),
            )


def _not_copied(path: str) -> Iterator[str]:
    if compiler.beside(path) is not None:
        yield f"{path}: the compiler's records beside it are not copied: they hold your code"


def _stem(trace: Trace, keep: frozenset[str]) -> str:
    """The rank, and eight letters that change with the trace, its captures and what is kept."""
    digest = hashlib.blake2b(",".join(sorted(keep)).encode(), digest_size=4)
    file, _, member = trace.path.partition("::")
    digest.update(member.encode())
    for each in (file, *(each.path for each in trace.captures)):
        with Path(each).open("rb") as source:
            while block := source.read(_BLOCK):
                digest.update(block)
    rank = trace.about.rank
    return f"{'trace' if rank is None else f'rank{rank}'}-{digest.hexdigest()}"


def redact(
    trace: Trace, folder: Path, allowed: AllowList | None = None, name: str = "trace.json.gz"
) -> Path:
    """Write the copy into `folder`; the captures of its graphs go beside it (`captured`)."""
    allowed, target = allowed or AllowList(), folder / name
    chrome.write(trace, target, allowed)
    known = {file.path: file for file in captures.beside(trace.path)}
    for place, each in enumerate(trace.captures):
        stated = known.get(each.path)
        size = f"_bs_{stated.size}" if stated and stated.size is not None else ""
        rank = f"_rank{stated.rank}" if stated and stated.rank is not None else ""
        beside = _captures_of(target)
        beside.mkdir(exist_ok=True)
        assert isinstance(each, Trace)
        chrome.write(each, beside / f"capture_{place:02}{size}{rank}.json.gz", allowed)
    return target


def captured(copy: Path) -> list[Path]:
    """The captures that `redact` wrote beside a copy: the ops of its graphs are in them."""
    return sorted(_captures_of(copy).glob("*.json.gz"))


def _captures_of(copy: Path) -> Path:
    return copy.with_name(copy.name.removesuffix(".json.gz") + captures.SUFFIX)


class Folder:
    """A folder on this machine, or mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            why = f"cannot create this folder: {problem.strerror}; choose another place"
            raise UsageError(f"{path}: {why}") from None

    def names(self) -> set[str]:
        """The files that are there; a link may lead out of the folder and counts for none."""
        entries = [entry for entry in self.path.iterdir() if not entry.is_symlink()]
        return {entry.name for entry in entries if entry.is_file()}

    def put(self, file: Path, name: str) -> None:
        """Put a file there, all of it or nothing."""
        target = self.path / name
        target.parent.mkdir(exist_ok=True)
        with files.replacing(target) as draft:
            shutil.copyfile(file, draft)

    def place(self, name: str) -> str:
        """Where a person finds a file."""
        return str(self.path / name)

    def perfetto(self, name: str) -> str | None:
        """A browser cannot fetch it."""
        return None


class HubBucket:
    """A Hub bucket, made if it is missing; `where` is USER/NAME[/FOLDER], or NAME for one's own."""

    def __init__(self, where: str) -> None:
        try:
            from huggingface_hub import HfApi
        except ImportError:
            needs = "needs huggingface_hub: pip install 'foretrace[hf]'"
            raise MissingError(f"--to hub {needs}") from None
        self.api: Any = HfApi(library_name="foretrace")
        where = where.removeprefix("hf://buckets/").strip("/")
        if not re.fullmatch(r"[\w.-]+(?:/[\w.-]+)*", where):
            raise UsageError(f"{where}: no bucket; write NAME, USER/NAME or hf://buckets/USER/NAME")
        self.where, parts = where, where.split("/")
        mine = len(parts) == 1
        owner = self._asked(lambda: self.api.whoami()["name"]) if mine else parts[0]
        self.bucket = f"{owner}/{parts[0] if mine else parts[1]}"
        self.folder = "".join(f"{part}/" for part in parts[2:])
        self._asked(lambda: self.api.create_bucket(self.bucket, exist_ok=True))

    def _asked(self, ask: Any) -> Any:
        """What the Hub answers; every refusal is one line."""
        try:
            with waiting():
                return ask()
        # the client raises what the libraries below it raise: there is no common class
        except Exception as problem:
            first = str(problem).strip().partition("\n")[0] or type(problem).__name__
            where = f"hf://buckets/{self.where} at {self.api.endpoint}"
            raise UsageError(f"{where}: {first} (log in with: hf auth login)") from problem

    def names(self) -> set[str]:
        """The files that are there."""
        inside = {"prefix": self.folder.rstrip("/") or None, "recursive": True}
        tree = self._asked(lambda: [*self.api.list_bucket_tree(self.bucket, **inside)])
        return {each.path.removeprefix(self.folder) for each in tree}

    def put(self, file: Path, name: str) -> None:
        """Put a file there, all of it or nothing."""
        add = [(file, f"{self.folder}{name}")]
        self._asked(lambda: self.api.batch_bucket_files(self.bucket, add=add))

    def place(self, name: str) -> str:
        """Where a person finds a file."""
        return f"hf://buckets/{self.bucket}/{self.folder}{name}"

    def perfetto(self, name: str) -> str | None:
        """The address that opens it in Perfetto, where the bucket is public."""
        file = f"{self.api.endpoint}/buckets/{self.bucket}/resolve/{self.folder}{name}"
        return f"{PERFETTO}/#!/?url={quote(file, safe=':/')}"
