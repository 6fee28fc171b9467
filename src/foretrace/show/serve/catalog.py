"""What may be opened: a table from number to file, made once; no path comes from a request."""

from __future__ import annotations

import os

from msgspec import Struct

from foretrace.base.budget import Limits
from foretrace.model import opening
from foretrace.read.folder import nothing_in, refusal, searched
from foretrace.show.render.safe import plain

# read whole before it is served, in a few milliseconds; of a larger file the first bytes must do
QUICK_BYTES = 1 << 20


class Entry(Struct, frozen=True):
    """One trace that may be opened; `label` is its path inside the folder."""

    number: int
    label: str
    path: str
    bytes: int


class Catalog(Struct, frozen=True):
    """`left_out` are files named like traces that cannot be read: (label, why)."""

    entries: list[Entry]
    left_out: list[tuple[str, str]]


def catalog(root: str, limits: Limits) -> Catalog:
    """The traces of a folder or zip, or the one trace `root`; links out of it are not followed."""
    found = searched(root, limits)
    files = [(root, None)] if found is None else found.files
    is_file = found is None and root != "-"
    if is_file and (_bytes(root) <= QUICK_BYTES or refusal(root, limits) is not None):
        # says in one line why it is not a trace, before anything is served
        opening.open(root, cache=False, limits=limits)
    inside = [(path, problem) for path, problem in files if _inside(path, root)]
    paths = [path for path, problem in inside if problem is None]
    if not paths:
        raise nothing_in(root, [])
    numbered = enumerate(paths)
    entries = [Entry(number, _label(path, root), path, _bytes(path)) for number, path in numbered]
    left_out = [
        (_label(path, root), plain(f"{problem.message} [{problem.code}]"))
        for path, problem in inside
        if problem
    ]
    return Catalog(entries, left_out)


def _inside(path: str, root: str) -> bool:
    file, home = os.path.realpath(path.partition("::")[0]), os.path.realpath(root)
    return file == home or file.startswith(home + os.sep)


def _label(path: str, root: str) -> str:
    return plain(os.path.relpath(path, root) if os.path.isdir(root) else os.path.basename(path))


def _bytes(path: str) -> int:
    file = path.partition("::")[0]
    return os.stat(file).st_size if os.path.exists(file) else 0
