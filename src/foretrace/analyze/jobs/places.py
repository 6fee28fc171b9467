"""Where the files of a job are: a folder, a zip or a bucket; and which of them are wanted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.model.metadata import rank_in_name
from foretrace.model.opening import refused
from foretrace.read.bytestream import open_regular
from foretrace.read.folder import NAMED_LIKE_A_TRACE, searched
from foretrace.read.limits import Limits
from foretrace.read.packed import unreadable
from foretrace.read.remote import SMALL, files_below, is_remote
from foretrace.read.zipped import ZIP, files_in, open_zip
from foretrace.schema.documents.sets import LeftOut
from foretrace.schema.whole import whole

MEMBERS = 1 << 14  # of a zip that holds a job: ranks are many, and their names short
_MOST_NUMBERS = 1 << 20


class JobFiles(Struct, frozen=True):
    """The files of a job with their sizes, by path, and what is named like a trace and is none.

    `limits` are those that its files are read under.
    """

    files: dict[str, int]
    left_out: list[LeftOut]
    limits: Limits


def places(path: str, limits: Limits) -> JobFiles:
    """The files of a job. Raises `TraceError` where there is nothing to be listed."""
    if _is_zip(path):
        limits = replace(limits, members=max(limits.members, MEMBERS))
        return JobFiles(_named(_in_zip(path, limits)), [], limits)
    if is_remote(path):
        return JobFiles(_named(_in_bucket(path)), [], limits)
    found = searched(path, limits)
    if found is None:
        return JobFiles({path: size_of(path)}, [], limits)
    left_out = [refused(each, problem) for each, problem in found.files if problem]
    return JobFiles({each: size_of(each) for each in found.traces}, left_out, limits)


def size_of(path: str) -> int:
    """The bytes of a file; 0 where they are not known."""
    return os.path.getsize(path) if os.path.isfile(path) else 0


def _is_zip(path: str) -> bool:
    if is_remote(path):
        return path.lower().endswith(".zip")
    if not os.path.isfile(path):
        return False
    with open_regular(path, SMALL) as file:
        return file.read(len(ZIP)) == ZIP


def _named(files: dict[str, int]) -> dict[str, int]:
    """Those named like a trace: a look into each would read a part of it twice."""
    chosen = (each for each in sorted(files) if re.search(NAMED_LIKE_A_TRACE, each))
    return {each: files[each] for each in chosen if not each.lower().endswith(".zip")}


def _in_zip(path: str, limits: Limits) -> dict[str, int]:
    """The members of a zip with their packed sizes."""
    with open_regular(path, SMALL) as file, open_zip(file, path, limits) as archive:
        sizes = {info.filename: info.compress_size for info in archive.infolist()}
        return {f"{path}::{name}": sizes[name] for name in files_in(archive)}


def _in_bucket(url: str) -> dict[str, int]:
    try:
        return files_below(url)
    except OSError as problem:
        raise unreadable(url, problem, "check the address and the credentials") from None


def wanted(files: Mapping[str, int], ranks: frozenset[int] | None) -> dict[str, int]:
    """The files whose names tell that they are of these ranks; all, where names tell nothing.

    A number in a name may be that of a process or of a GPU in its host. It is believed to be the
    rank only where all files have one, no two the same, and none beyond what their number suggests.
    """
    named = {path: rank_in_name(path) for path in files}
    told = [rank for rank in named.values() if rank is not None]
    sure = len(set(told)) == len(files) and max(told, default=0) < 2 * len(files)
    if ranks is None or not sure:
        return dict(files)
    chosen = {path: size for path, size in files.items() if named[path] in ranks}
    return chosen or dict(files)  # where names are wrong, headers tell


def numbers(option: str, text: str | None) -> frozenset[int] | None:
    """`0-63,128` as numbers; None where nothing is chosen."""
    if text is None:
        return None
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = whole(first), whole(last) if dash else whole(first)
        if low is None or high is None or low < 0 or not 0 <= high - low < _MOST_NUMBERS:
            raise UsageError(f"{option} {text!r}: write numbers and ranges, as in 0-63,128")
        chosen.update(range(low, high + 1))
    return frozenset(chosen)
