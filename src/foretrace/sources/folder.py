"""Folders and archives of traces: which files in there are traces, told by their first bytes.

Producers name their files in a dozen ways (`*.pt.trace.json.gz`, `rank0_trace.json.gz`, `libkineto_activities_7.json`, a
killed export's `t.json.tmp`), and keep other JSON beside them; so a name only says what is worth a look inside.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from itertools import islice

from ..errors import TraceError, UsageError
from ..schema.ledger import LedgerBuilder
from .bytestream import ZIP, open_stream, open_zip
from .limits import Limits

_WORTH_A_LOOK = re.compile(r"\.(?:json|trace|tmp)(?:\.(?:gz|zst|zstd|tmp))?$|\.(?:gz|zst|zstd)$", re.IGNORECASE)
_TRACE = re.compile(rb'"traceEvents"\s*:\s*\[|^\s*\[\s*\{[^{}]{0,400}"ph"\s*:|"schemaVersion"\s*:\s*\d+\s*,')
_PEEK = 256 << 10


def resolve(path: str, limits: Limits) -> str:
    """The one trace that `path` means. A folder or zip with several is a usage error that lists them."""
    found = candidates(path, limits)
    if found is None:
        return path
    if not found:
        raise TraceError("E_NO_EVENTS", path, "no trace in there", hint="give a folder that holds *.json or *.json.gz traces")
    if len(found) > 1:
        listed = "\n  ".join(found[:64])
        raise UsageError(f"{path} holds {len(found)} traces; name one:\n  {listed}")
    return found[0]


def candidates(path: str, limits: Limits) -> list[str] | None:
    """The traces in a folder or zip, sorted; None when `path` is neither."""
    if path == "-":
        return None
    if os.path.isdir(path):
        return sorted(_in_folder(path, limits))
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            if file.read(4) != ZIP:
                return None
            file.seek(0)
            with open_zip(file, path, limits) as archive:
                return _in_zip(archive, path, limits)
    except OSError:
        return None  # opening it for reading says what is wrong


def _in_folder(path: str, limits: Limits) -> Iterator[str]:
    for folder, inside, names in os.walk(path):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        for name in names:
            full = os.path.join(folder, name)
            finished = name.removesuffix(".tmp")
            if finished != name and finished in names:
                continue  # the export was finished after all
            if _WORTH_A_LOOK.search(name) and os.path.isfile(full) and _is_trace(full, limits):
                yield full


def _in_zip(archive: zipfile.ZipFile, path: str, limits: Limits) -> list[str]:
    members = [info.filename for info in archive.infolist() if not info.is_dir()]
    return sorted(f"{path}::{name}" for name in members if _is_trace(f"{path}::{name}", limits))


def _is_trace(path: str, limits: Limits) -> bool:
    """Whether the first bytes look like a trace; what cannot be read is none."""
    try:
        held = b""
        for block in islice(open_stream(path, limits, LedgerBuilder()).blocks, 8):
            held += block
            if len(held) >= _PEEK:
                break
        return _TRACE.search(held) is not None
    except TraceError:
        return False
