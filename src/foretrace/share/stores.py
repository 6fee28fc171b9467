"""Where traces can be put: a folder, a bucket of S3 or Google's, a bucket of the Hugging Face Hub.

A store can say what is in it and put a file there; it has no way to delete one.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from foretrace.errors import MissingError, UsageError

PERFETTO = "https://ui.perfetto.dev/#!/?url="
_INSTALL = "pip install 'foretrace[share]'"
_DRIVERS = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}

Sent = Callable[[int, int], None]  # hears how many bytes of a file are there, of how many


class Store(Protocol):
    """`place` is where a person finds a file, `link` the address a browser can fetch it from, or
    None where there is none.
    """

    def names(self) -> set[str]: ...
    def put(self, path: Path, name: str, sent: Sent) -> None: ...
    def place(self, name: str) -> str: ...
    def link(self, name: str) -> str | None: ...


class StoreError(UsageError):
    """A store said no; the message is its own."""


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
        raise UsageError(
            f"{url}: traces go to a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or "
            "hf://buckets/USER/NAME"
        )
    return CloudBucket(scheme, rest.rstrip("/"))


class Folder:
    """A folder on this machine, or mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise StoreError(
                f"{path}: no folder can be made there: {problem.strerror}; choose another place"
            ) from None

    def names(self) -> set[str]:
        return {entry.name for entry in self.path.iterdir() if entry.is_file()}

    def put(self, path: Path, name: str, sent: Sent) -> None:
        part = self.path / f".{name}.part"
        try:
            shutil.copyfile(path, part)
            # whole or not at all: a run that is stopped leaves nothing half written
            os.replace(part, self.path / name)
        except OSError as problem:
            raise StoreError(f"{self.place(name)} cannot be written: {problem.strerror}") from None

    def place(self, name: str) -> str:
        return str(self.path / name)

    def link(self, name: str) -> str | None:
        return None


class CloudBucket:
    """A bucket behind fsspec; credentials and address come from where its driver takes them
    (`AWS_ENDPOINT_URL`, ...).
    """

    def __init__(self, scheme: str, root: str) -> None:
        self.scheme, self.root = scheme, root
        try:
            import fsspec
        except ImportError:
            raise MissingError(f"sharing to {scheme}:// needs fsspec: {_INSTALL}") from None
        self._callback: Any = fsspec.callbacks.Callback
        try:
            with warnings.catch_warnings():
                # a driver's opinion of its own version is nothing a person can use here
                warnings.simplefilter("ignore")
                self.files = fsspec.filesystem(scheme)
        except ImportError:
            raise MissingError(
                f"sharing to {scheme}:// needs {_DRIVERS[scheme]}: pip install {_DRIVERS[scheme]}"
            ) from None
        except Exception as problem:
            raise StoreError(f"{self.place('')}: {problem}") from None

    def names(self) -> set[str]:
        try:
            return {path.rpartition("/")[2] for path in self.files.ls(self.root, detail=False)}
        except FileNotFoundError:
            return set()
        except Exception as problem:
            raise StoreError(f"{self.place('')}: {problem}") from None

    def put(self, path: Path, name: str, sent: Sent) -> None:
        told = self._callback(hooks={"sent": lambda size, value, **_: sent(value, size or 0)})
        try:
            self.files.put_file(str(path), f"{self.root}/{name}", callback=told)
            self.files.invalidate_cache()
        except Exception as problem:
            raise StoreError(f"{self.place(name)}: {problem}") from None

    def place(self, name: str) -> str:
        return f"{self.scheme}://{self.root}/{name}"

    def link(self, name: str) -> str | None:
        bucket, _, prefix = self.root.partition("/")
        key = f"{prefix}/{name}" if prefix else name
        if self.scheme != "s3":
            return f"https://storage.googleapis.com/{bucket}/{key}"
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return (
            f"{endpoint.rstrip('/')}/{bucket}/{key}"
            if endpoint
            else f"https://{bucket}.s3.amazonaws.com/{key}"
        )


class HubBucket:
    """A bucket of the Hugging Face Hub, made when it is not there; `where` is USER/NAME[/FOLDER],
    or NAME for one's own.
    """

    def __init__(self, where: str) -> None:
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise MissingError(
                f"sharing to the Hugging Face Hub needs huggingface_hub: {_INSTALL}"
            ) from None
        self.api: Any = HfApi()
        parts = where.strip("/").split("/")
        try:
            owner = parts[0] if len(parts) > 1 else self.api.whoami()["name"]
            self.bucket = f"{owner}/{parts[1] if len(parts) > 1 else parts[0]}"
            self.api.create_bucket(self.bucket, exist_ok=True)
        except Exception as problem:  # its client raises what the library underneath it raises
            raise StoreError(
                f"hf://buckets/{where} at {self.api.endpoint}: {problem} (log in with: hf auth "
                "login)"
            ) from None
        self.folder = "/".join(parts[2:])

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def names(self) -> set[str]:
        try:
            tree = self.api.list_bucket_tree(
                self.bucket, prefix=self.folder or None, recursive=True
            )
            found = {entry.path for entry in tree}
        except Exception as problem:
            if getattr(getattr(problem, "response", None), "status_code", None) == 404:
                return set()  # a folder nobody has put anything in
            raise StoreError(f"{self.place('')}: {problem}") from None
        return {path.rpartition("/")[2] for path in found if path.rpartition("/")[0] == self.folder}

    def put(self, path: Path, name: str, sent: Sent) -> None:
        try:
            self.api.batch_bucket_files(self.bucket, add=[(path, self._path(name))])
        except Exception as problem:
            raise StoreError(f"{self.place(name)}: {problem}") from None

    def place(self, name: str) -> str:
        return f"hf://buckets/{self.bucket}/{self._path(name)}"

    def link(self, name: str) -> str | None:
        return f"{self.api.endpoint}/buckets/{self.bucket}/resolve/{self._path(name)}"
