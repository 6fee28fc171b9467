"""Atomic writes: a file that this package writes is there whole or not at all.

A symbolic link in the place of the target is replaced and never written through, so that a link
which somebody else planted leads nowhere. What is not a plain file (a folder, a device) is refused.
`module_names` lists the files of a package.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DRAFT = ".foretrace-"
ABANDONED_S = 600  # far longer than a draft takes; its process may run on another machine


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """A folder of one's own in `parent`, else where temporary files go; at the end it is gone."""
    import shutil

    if parent is None:
        import tempfile  # brings random and hashlib

        parent = Path(tempfile.gettempdir())
    # its name is known before it is there: an interrupt in between leaves nothing behind
    folder = parent / f"{DRAFT}{os.getpid()}-{os.urandom(8).hex()}"
    try:
        folder.mkdir(0o700)
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            if folder.exists():  # interrupted, or a failure that passes
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to; it takes the place of `target` when the block ends without an error.

    The draft lies in a private folder beside the target, so that nobody else can read or replace it
    and the last step is a rename within one file system. A file that is replaced passes its
    permissions on. The folder of the target must exist.
    """
    try:
        mode = _mode(target)
        with scratch(target.parent) as folder:
            draft = folder / target.name
            yield draft
            if mode is not None and mode != _mode(draft):
                draft.chmod(mode)
            os.replace(draft, target)
    except OSError as problem:
        # a write has no file name, and the name of a draft says nothing to a person
        if problem.filename is None or DRAFT in os.fsdecode(problem.filename):
            problem.filename, problem.filename2 = os.fspath(target), None
        raise


def _mode(target: Path) -> int | None:
    """The permissions of a plain file; None where there is none, or a link to replace."""
    try:
        kind = target.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(target))
    if not stat.S_ISREG(kind):
        raise FileExistsError(errno.EEXIST, "Not a plain file", os.fspath(target))
    return None if target.is_symlink() else stat.S_IMODE(kind)


def clear_abandoned(folder: Path) -> None:
    """Delete the drafts in `folder` whose process was killed."""
    for private in folder.glob(f"{DRAFT}*"):
        with suppress(OSError):
            old = abs(time.time() - private.lstat().st_mtime) > ABANDONED_S  # clocks go back, too
            if old and private.is_dir() and not private.is_symlink() and not _lives(private):
                for draft in private.iterdir():
                    draft.unlink()
                private.rmdir()


def _lives(private: Path) -> bool:
    """Whether the process that made a draft is still there."""
    number = private.name.removeprefix(DRAFT).partition("-")[0]
    try:
        os.kill(int(number), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except OSError:  # another user's
        return True
    return True


def write_text(target: Path, text: str) -> None:
    """Write UTF-8 text to `target` atomically."""
    with replacing(target) as draft:
        draft.write_text(text, encoding="utf-8")


def write_bytes(target: Path, content: bytes) -> None:
    """Write bytes to `target` atomically."""
    with replacing(target) as draft:
        draft.write_bytes(content)


def module_names(path: Iterable[str]) -> list[str]:
    """The public modules of a package, in order; one named `_...` is shared help.

    `pkgutil` asks of every file whether it is a module of any kind, which takes ten times as long.
    """
    if all(map(os.path.isdir, path)):
        files = [file for place in path for file in os.listdir(place)]
        found = [file.removesuffix(".py") for file in files if file.endswith(".py")]
    else:  # an archive
        from pkgutil import iter_modules

        found = [each.name for each in iter_modules(path)]
    return sorted(name for name in found if not name.startswith("_"))
