"""What may be opened: a table from number to file, made once at the start. No path ever comes from a request."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import TraceError
from ..render.safe import plain
from ..schema.ledger import LedgerBuilder
from ..sources.bytestream import open_stream
from ..sources.folder import candidates
from ..sources.limits import Limits


@dataclass(frozen=True, slots=True)
class Entry:
    """One trace that may be opened; `label` is its path inside the folder."""

    number: int
    label: str
    path: str
    bytes: int


def catalog(root: str, limits: Limits) -> list[Entry]:
    """The traces of a folder or zip, or the one trace that `root` is. Links that lead out of the folder are left out."""
    found = candidates(root, limits)
    if found is None and root != "-":
        open_stream(root, limits, LedgerBuilder())  # says in one line why a path cannot be read, before anything is served
    paths = [root] if found is None else [path for path in found if _inside(path, root)]
    if not paths:
        raise TraceError("E_NO_EVENTS", root, "no trace in there", hint="give a folder that holds *.json or *.json.gz traces")
    return [Entry(number, plain(_label(path, root)), path, _bytes(path)) for number, path in enumerate(paths)]


def _inside(path: str, root: str) -> bool:
    file, home = os.path.realpath(path.partition("::")[0]), os.path.realpath(root)
    return file == home or file.startswith(home + os.sep)


def _label(path: str, root: str) -> str:
    return os.path.relpath(path, root) if os.path.isdir(root) else os.path.basename(path)


def _bytes(path: str) -> int:
    file = path.partition("::")[0]
    return os.stat(file).st_size if os.path.exists(file) else 0
