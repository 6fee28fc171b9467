"""Where the traces lie that were recorded while CUDA graphs were captured.

`foretrace record --graphs` leaves them in `run.captures/` beside `run.json.gz`. A folder
`captures/`, `capture_traces/` (vLLM) or `graph_capture_profile/` (SGLang) beside a trace is taken
as well, and files named as both name them (`graph_capture_rank_0.….json.gz`,
`bs_32_rank0.json.gz`). `execution_details.json` among them states the batch size of each file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from zlib import crc32

import msgspec
from msgspec import Struct

from foretrace.base.patterns import regex
from foretrace.read.compiler.bundle import TRACE, names_in

SUFFIX = ".captures"
DETAILS = "execution_details.json"
FOLDERS = ("captures", "capture_traces", "graph_capture_profile")
MOST = 64  # files that are read: an engine captures some 30 to 60 batch sizes per rank
_NAMED = regex(r"(?:graph_capture_rank_\d|bs_\d+_rank_?\d|capture[._-]).*|capture")
_SIZE = regex(r"(?:^|[._-])(?:bs|batch)[=_-]?(\d{1,7})(?=[._-]|$)")
_RANK = regex(r"rank[_-]?(\d{1,6})", re.I)
_DETAILS_LARGEST = 1 << 20


class CaptureFile(Struct, frozen=True):
    """One file, with the batch size and rank that its name or `execution_details.json` states."""

    path: str
    size: int | None
    rank: int | None


class _Detail(Struct):
    file: str
    batch_size: int | None = None


def is_folder(name: str) -> bool:
    """Whether a folder of this name beside a trace holds its captures, and no traces to look at."""
    return name in FOLDERS or name.endswith(SUFFIX)


def beside(trace_path: str) -> list[CaptureFile]:
    """The captures that belong to a trace, where they lie beside it."""
    folder, name = os.path.split(trace_path)
    folder = folder or os.curdir
    own = TRACE.sub("", name) + SUFFIX
    for inside in (own, *FOLDERS):
        if found := files(os.path.join(folder, inside), trace_path):
            return found
    details = _details(folder)
    return [
        file
        for file in files(folder, trace_path)
        if _NAMED.fullmatch(TRACE.sub("", os.path.basename(file.path)))
        or os.path.basename(file.path) in details
    ]


def files(folder: str, trace_path: str = "") -> list[CaptureFile]:
    """The traces in a folder, or the one file; the replay itself is left out."""
    if os.path.isfile(folder):
        return [_described(folder, {})]
    details = _details(folder)
    names = [name for name in names_in(folder) if TRACE.search(name) and name != DETAILS]
    paths = [os.path.join(folder, name) for name in names]
    return [_described(path, details) for path in paths if not _same(path, trace_path)]


def chosen(
    found: Sequence[CaptureFile], sizes: Iterable[int | None], rank: int | None
) -> list[CaptureFile]:
    """The files worth reading for replays of these batch sizes, those that state nothing included.

    An engine pads a batch to the next size that it captured.
    """
    ranks = {file.rank for file in found}
    mine = [file for file in found if file.rank in (None, rank)] if rank in ranks else list(found)
    wanted = set(sizes)
    if None in wanted or not wanted:
        return mine
    known = sorted({file.size for file in mine if file.size is not None})
    padded = {next((size for size in known if size >= need), -1) for need in wanted if need}
    return [file for file in mine if file.size is None or file.size in padded]


def mark(found: Sequence[CaptureFile]) -> int:
    """A number that changes when one of the files does."""
    return crc32(repr([(file, _stamp(file.path)) for file in found]).encode(errors="replace"))


def _stamp(path: str) -> tuple[int, int]:
    try:
        known = os.stat(path)
    except OSError:
        return (0, 0)
    return known.st_size, known.st_mtime_ns


def _described(path: str, details: dict[str, int | None]) -> CaptureFile:
    name = os.path.basename(path)
    size, rank = _SIZE.search(TRACE.sub("", name)), _RANK.search(name)
    stated = int(size[1]) if size else None
    return CaptureFile(path, details.get(name) or stated, int(rank[1]) if rank else None)


def _details(folder: str) -> dict[str, int | None]:
    """The batch sizes that `execution_details.json` states; nothing where it is not valid."""
    path = os.path.join(folder, DETAILS)
    if not os.path.isfile(path):
        return {}
    try:
        with open(path, "rb") as file:
            rows = msgspec.json.decode(file.read(_DETAILS_LARGEST), type=list[_Detail])
    except (OSError, msgspec.DecodeError):
        return {}
    return {os.path.basename(row.file): row.batch_size for row in rows}


def _same(path: str, other: str) -> bool:
    try:
        return bool(other) and os.path.samefile(path, other)
    except OSError:
        return False
