"""Where traces can be put: a folder, a bucket of S3 or Google's, a bucket of the Hugging Face Hub.

A store can list its files and take one; it has no way to delete one.
"""

from __future__ import annotations

import os
import shutil
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foretrace.base import files
from foretrace.base.budget import waiting
from foretrace.base.errors import ForetraceError, MissingError, UsageError

_INSTALL = "pip install 'foretrace[share]'"
_DRIVERS = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}

Sent = Callable[[int, int], None]  # called with the bytes of a file that are sent, of how many


class StoreError(UsageError):
    """A store refused; the message is its own."""


class Store(ABC):
    """A place for files: a file's name follows `root`, or `web` where browsers can fetch it."""

    root: str
    web: str | None = None

    def names(self) -> set[str]:
        """The files that are there."""
        with _refusals(self.root):
            return self._names()

    def put(self, path: Path, name: str, sent: Sent) -> None:
        """Put a file there, whole or not at all."""
        with _refusals(self.place(name)):
            self._put(path, name, sent)

    def place(self, name: str) -> str:
        """Where a person finds a file."""
        return f"{self.root}{name}"

    def link(self, name: str) -> str | None:
        """Where a browser can fetch a file; None where it cannot."""
        return f"{self.web}{name}" if self.web else None

    @abstractmethod
    def _names(self) -> set[str]: ...

    @abstractmethod
    def _put(self, path: Path, name: str, sent: Sent) -> None: ...


@contextmanager
def _refusals(place: str, hint: str = "") -> Iterator[None]:
    """Every failure of a store, in one line; the time that it takes is not the trace's."""
    try:
        with waiting():
            yield
    except ForetraceError:
        raise
    # a driver raises what the libraries below it raise: there is no common class
    except Exception as problem:
        raise StoreError(f"{place}: {problem}{hint}") from problem


def store_for(url: str) -> Store:
    """The store an address means."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return Folder(Path(url))
    if scheme == "hf":
        kind, _, place = rest.partition("/")
        if kind != "buckets" or not place:
            raise UsageError(f"{url}: write hf://buckets/USER/NAME")
        return HubBucket(place)
    if scheme == "file":
        return Folder(Path("/" + rest.lstrip("/")))
    if scheme not in _DRIVERS:
        known = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or hf://buckets/USER/NAME"
        raise UsageError(f"{url}: not a destination; give a folder, {known}")
    return CloudBucket(scheme, rest.rstrip("/"))


class Folder(Store):
    """A folder on this machine, or mounted."""

    def __init__(self, path: Path) -> None:
        self.path, self.root = path, str(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            why = f"cannot create this folder: {problem.strerror}; choose another place"
            raise StoreError(f"{path}: {why}") from None

    def place(self, name: str) -> str:
        """The path of a file."""
        return str(self.path / name)

    def _names(self) -> set[str]:
        # a link may lead out of the folder: what it leads to is not what was shared
        entries = [entry for entry in self.path.iterdir() if not entry.is_symlink()]
        return {entry.name for entry in entries if entry.is_file()}

    def _put(self, path: Path, name: str, sent: Sent) -> None:
        target = self.path / name
        target.parent.mkdir(exist_ok=True)  # of the compiler's records
        with files.replacing(target) as draft:
            shutil.copyfile(path, draft)


class CloudBucket(Store):
    """A bucket behind fsspec; its driver finds the credentials and the address."""

    def __init__(self, scheme: str, where: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise MissingError(f"sharing to {scheme}:// needs fsspec: {_INSTALL}") from None
        self.folder, self.root = where, f"{scheme}://{where}/"
        self.web = _web_address(scheme, *where.partition("/")[::2])
        self._callback: Any = fsspec.callbacks.Callback
        with _refusals(self.root), warnings.catch_warnings():
            # a driver's opinion of its own version is nothing a person can use here
            warnings.simplefilter("ignore")
            try:
                self.files: Any = fsspec.filesystem(scheme)
            except ImportError:
                needs = f"needs {_DRIVERS[scheme]}: pip install {_DRIVERS[scheme]}"
                raise MissingError(f"sharing to {scheme}:// {needs}") from None

    def _names(self) -> set[str]:
        try:
            return {path.rpartition("/")[2] for path in self.files.ls(self.folder, detail=False)}
        except FileNotFoundError:
            return set()

    def _put(self, path: Path, name: str, sent: Sent) -> None:
        progress = self._callback(hooks={"sent": lambda size, value, **_: sent(value, size or 0)})
        self.files.put_file(str(path), f"{self.folder}/{name}", callback=progress)
        self.files.invalidate_cache()


def _web_address(scheme: str, bucket: str, prefix: str) -> str:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if scheme != "s3":
        endpoint = "https://storage.googleapis.com"
    base = (
        f"{endpoint.rstrip('/')}/{bucket}/" if endpoint else f"https://{bucket}.s3.amazonaws.com/"
    )
    return f"{base}{prefix}/" if prefix else base


class HubBucket(Store):
    """A Hub bucket, made if it is missing; `where` is USER/NAME[/FOLDER], or NAME for one's own."""

    def __init__(self, where: str) -> None:
        try:
            from huggingface_hub import HfApi
        except ImportError:
            words = f"sharing to the Hugging Face Hub needs huggingface_hub: {_INSTALL}"
            raise MissingError(words) from None
        self.api: Any = HfApi()
        parts = where.strip("/").split("/")
        login = " (log in with: hf auth login)"
        with _refusals(f"hf://buckets/{where} at {self.api.endpoint}", login):
            owner, name = parts[:2] if len(parts) > 1 else (self.api.whoami()["name"], parts[0])
            self.bucket = f"{owner}/{name}"
            self.api.create_bucket(self.bucket, exist_ok=True)
        self.folder = "".join(f"{part}/" for part in parts[2:])
        self.root = f"hf://buckets/{self.bucket}/{self.folder}"
        self.web = f"{self.api.endpoint}/buckets/{self.bucket}/resolve/{self.folder}"

    def _names(self) -> set[str]:
        prefix = self.folder.rstrip("/") or None
        try:
            tree = self.api.list_bucket_tree(self.bucket, prefix=prefix, recursive=True)
            found = [entry.path for entry in tree]
        # its client has no class of its own for a folder that is not there
        except Exception as problem:
            if getattr(getattr(problem, "response", None), "status_code", None) == 404:
                return set()
            raise
        inside = (path.removeprefix(self.folder) for path in found if path.startswith(self.folder))
        return {name for name in inside if "/" not in name}

    def _put(self, path: Path, name: str, sent: Sent) -> None:
        self.api.batch_bucket_files(self.bucket, add=[(path, f"{self.folder}{name}")])
