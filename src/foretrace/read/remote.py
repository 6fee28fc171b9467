"""Files in a bucket or on the Hugging Face Hub, read as streams through fsspec.

A driver finds the credentials and the address, and fetches a file in blocks, in order. Nothing is
kept on disk.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from foretrace.base.errors import MissingError, UsageError

T = TypeVar("T")
# scheme: the extra that brings its driver
_EXTRAS = {"s3": "s3", "gs": "gs", "gcs": "gs", "hf": "hf", "file": "hf", "memory": "hf"}


def files_below(url: str) -> dict[str, int]:
    """The files below an address, or the one that it is, with their sizes."""
    files = _files(url.partition("://")[0])
    listed = _asked(lambda: files.find(files._strip_protocol(url), detail=True))
    return {files.unstrip_protocol(name): int(each["size"] or 0) for name, each in listed.items()}


def stamp_of(url: str) -> str | None:
    """What changes when a file does; None where the driver does not tell."""
    try:
        return str(_files(url.partition("://")[0]).ukey(url))
    except Exception:  # noqa: BLE001 - a driver raises what the libraries below it raise
        return None


def open_remote(url: str, block: int) -> RemoteFile:
    """A file to read. Raises `OSError`."""
    files = _files(url.partition("://")[0])
    return RemoteFile(_asked(lambda: files.open(url, "rb", block_size=block)))


class RemoteFile(io.RawIOBase):
    """A file of a driver; whatever it raises is an `OSError`."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.size = int(_asked(lambda: file.seek(0, io.SEEK_END)))
        file.seek(0)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        return _asked(lambda: bytes(self._file.read(size)))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        return int(_asked(lambda: self._file.seek(offset, whence)))

    def tell(self) -> int:
        """The byte that comes next."""
        return int(self._file.tell())

    def close(self) -> None:
        """Give it back to the driver."""
        if not self.closed:
            self._file.close()
        super().close()


def _asked(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except OSError:
        raise
    except Exception as problem:
        raise OSError(f"{type(problem).__name__}: {problem}") from problem


@cache
def _files(scheme: str) -> Any:
    if scheme not in _EXTRAS:
        known = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or hf://datasets/USER/NAME"
        raise UsageError(f"{scheme}://: not a place to read from; give a folder, a zip, {known}")
    try:
        import fsspec

        with warnings.catch_warnings():
            # a driver's opinion of its own version is nothing a person can use here
            warnings.simplefilter("ignore")
            return fsspec.filesystem(scheme)
    except ImportError:
        needs = f"{scheme}:// needs a package: pip install 'foretrace[{_EXTRAS[scheme]}]'"
        raise MissingError(needs) from None
