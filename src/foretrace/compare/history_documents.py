"""`foretrace history --json`: a program over its commits, and where it changed.

A folder of a history has one file for each run, which is never changed: two jobs that write at once
write two files.
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, json

from foretrace.base.errors import UsageError
from foretrace.base.files import write_bytes
from foretrace.read.run_record import Nanoseconds

SCHEMA = 1
MOST_BYTES = 1 << 16  # of an entry: a thousand times and a hundred fusions fit
MOST_TIMES, MOST_FUSIONS = 100, 100
MOST_RUNS = 1000  # that one page is made of, the last ones
NO_PROFILER, GPU_TIME, PROFILED = "no profiler", "GPU time", "includes profiler overhead"
_DATE = r"^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z$"  # `$` alone lets a newline pass
_COMMIT = re.compile(r"[\w.-]{1,64}", re.ASCII)

Text = Annotated[str, Meta(max_length=200)]
Count = Annotated[int, Meta(ge=0, le=1 << 62)]


class HistoryEntry(Struct, frozen=True):
    """One run of one commit, a file of the folder.

    `times_ns` are steps or blocks of steps, and `basis` says how they were measured. `unit` is what
    repeats: step, run, or the name of a region. `fusions` names what each fused kernel does.
    """

    commit: Annotated[str, Meta(min_length=1, max_length=64)]
    date: Annotated[str, Meta(pattern=_DATE, max_length=20)]
    times_ns: Annotated[list[Nanoseconds], Meta(min_length=1, max_length=MOST_TIMES)]
    basis: Text
    unit: Text
    kernels: Count | None
    fusions: Annotated[list[Text], Meta(max_length=MOST_FUSIONS)]
    peak_bytes: Count | None
    device: Text | None
    torch: Text | None
    schema: int = SCHEMA


class HistoryRow(Struct, frozen=True):
    """One commit: the median step with its interval over all its `runs`, and the counts of its
    last run.
    """

    commit: str
    date: str
    runs: int
    median_ns: float
    low_ns: float
    high_ns: float
    kernels: int | None
    fusions: int
    peak_bytes: int | None


class HistoryChange(Struct, frozen=True):
    """What differs from `commit` on.

    `what` is step time, kernels, fusions, memory, or what was measured with: device, torch, basis,
    unit. `before` and `after` are the medians or counts of both sides; of a step time, `ratio` has
    the interval `low` to `high`, and the change lies from commit `first` to commit `last`.
    `details` names what came and went.
    """

    what: str
    commit: str
    date: str
    before: float | str | None
    after: float | str | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    first: str = ""
    last: str = ""
    details: list[str] = []


class HistoryDocument(Struct, frozen=True):
    """Commits in their order, and what changed.

    `suspect` is a last commit far outside of all before it, with too few runs to decide.
    `decidable` says whether there are enough runs to find a change of the step time at all.
    `basis` and `unit` are those of the last run; `left_out` says which files are no entries.
    """

    rows: list[HistoryRow]
    changes: list[HistoryChange]
    suspect: HistoryChange | None
    decidable: bool
    basis: str
    unit: str
    device: str | None
    torch: str | None
    left_out: list[str]
    schema: int = SCHEMA


def add_entry(folder: Path, entry: HistoryEntry) -> Path:
    """Write one entry; its name has the date, the commit and a hash, so nothing is replaced."""
    if not _COMMIT.fullmatch(entry.commit):
        raise UsageError(f"--commit {entry.commit!r}: give a hash or a tag: letters, digits, . _ -")
    content = json.encode(entry)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = re.sub(r"[-:]", "", entry.date)
    name = f"{stamp}-{entry.commit[:12]}-{sha256(content).hexdigest()[:8]}.json"
    write_bytes(folder / name, content)
    return folder / name


def read_entries(folder: Path) -> tuple[list[HistoryEntry], list[str]]:
    """The last entries by date, and a line for each file that is none."""
    if not folder.is_dir():
        hint = "foretrace history FOLDER --add TRACE --commit NAME makes it"
        raise UsageError(f"{folder}: no such folder; {hint}")
    found, left_out = list[tuple[str, str, HistoryEntry]](), list[str]()
    for path in sorted(folder.glob("*.json")):
        try:
            entry = _read(path)
            found.append((entry.date, path.name, entry))
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else str(problem)
            left_out.append(f"{path.name}: {why}")
    found.sort(key=lambda each: each[:2])
    if more := len(found) - MOST_RUNS:
        left_out += [f"{more:,} older runs: a page has {MOST_RUNS:,}"] if more > 0 else []
    if not found:
        why = f": {left_out[0]}" if left_out else "; add a run with --add TRACE"
        raise UsageError(f"{folder}: no entry of a history in it{why}")
    return [entry for *_, entry in found[-MOST_RUNS:]], left_out


def _read(path: Path) -> HistoryEntry:
    found = path.stat()
    if not S_ISREG(found.st_mode):  # a pipe would wait for ever, a device has no end
        raise ValueError("not a file")
    if found.st_size > MOST_BYTES:
        raise ValueError("too large for an entry")
    content = path.read_bytes()
    try:
        newer = json.decode(content, type=_Versioned).schema
        if newer > SCHEMA:
            raise ValueError(f"schema {newer} of a newer foretrace; update this one")
        return json.decode(content, type=HistoryEntry)
    except (DecodeError, RecursionError) as problem:
        raise ValueError(f"not an entry of a history: {problem}") from None


class _Versioned(Struct):
    schema: int


DOCUMENTS = {"history": HistoryDocument}
