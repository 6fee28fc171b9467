"""Where traces can be put: a folder, anything fsspec knows (`s3://`, `gs://`), a bucket of the Hugging Face Hub.

A store can say how large a file is and put a file; it has no way to delete one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Protocol

from ..errors import ForetraceError, MissingError, UsageError

PERFETTO = "https://ui.perfetto.dev/#!/?url="
_INSTALL = "pip install 'foretrace[share]'"


class Store(Protocol):
    """`link` is the address a browser can fetch a file from, or None where there is none."""

    def size(self, name: str) -> int | None: ...
    def put(self, path: Path, name: str) -> None: ...
    def link(self, name: str) -> str | None: ...


class StoreError(ForetraceError):
    """A store said no; the message is its own."""

    exit_code = 4


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
    return FsspecStore(url)


class Folder:
    """A folder on this machine, or mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def size(self, name: str) -> int | None:
        target = self.path / name
        return target.stat().st_size if target.is_file() else None

    def put(self, path: Path, name: str) -> None:
        part = self.path / f".{name}.part"
        shutil.copyfile(path, part)
        os.replace(part, self.path / name)  # whole or not at all: a run that is stopped leaves nothing half written

    def link(self, name: str) -> str | None:
        return None


class FsspecStore:
    """A bucket behind fsspec; credentials and address come from where its driver takes them (`AWS_ENDPOINT_URL`, ...)."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise MissingError(f"sharing to {url} needs fsspec: {_INSTALL}") from None
        self.scheme, _, rest = url.partition("://")
        self.root = rest.rstrip("/")
        try:
            self.files = fsspec.filesystem(self.scheme)
        except ImportError as problem:
            raise MissingError(f"sharing to {self.scheme}:// needs one more package: {problem}") from None
        except ValueError as problem:
            raise UsageError(f"{url}: {problem}") from None

    def size(self, name: str) -> int | None:
        try:
            return int(self.files.info(f"{self.root}/{name}")["size"])
        except FileNotFoundError:
            return None
        except Exception as problem:
            raise StoreError(f"{self.scheme}://{self.root}: {problem}") from None

    def put(self, path: Path, name: str) -> None:
        try:
            self.files.put_file(str(path), f"{self.root}/{name}")
            self.files.invalidate_cache()
        except Exception as problem:
            raise StoreError(f"{self.scheme}://{self.root}/{name}: {problem}") from None

    def link(self, name: str) -> str | None:
        bucket, _, prefix = self.root.partition("/")
        key = f"{prefix}/{name}" if prefix else name
        if self.scheme in ("gs", "gcs"):
            return f"https://storage.googleapis.com/{bucket}/{key}"
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if self.scheme == "s3":
            return f"{endpoint.rstrip('/')}/{bucket}/{key}" if endpoint else f"https://{bucket}.s3.amazonaws.com/{key}"
        return None


class HubBucket:
    """A bucket of the Hugging Face Hub, made when it is not there; `place` is USER/NAME[/FOLDER], or NAME for one's own."""

    def __init__(self, place: str) -> None:
        try:
            from huggingface_hub import HfApi
            from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError
        except ImportError:
            raise MissingError(f"sharing to the Hugging Face Hub needs huggingface_hub: {_INSTALL}") from None
        self.api: Any = HfApi()
        self._refused = (HfHubHTTPError, LocalTokenNotFoundError, OSError, RuntimeError, ValueError)
        parts = place.strip("/").split("/")
        try:
            owner = parts[0] if len(parts) > 1 else self.api.whoami()["name"]
            self.bucket = f"{owner}/{parts[1] if len(parts) > 1 else parts[0]}"
            self.api.create_bucket(self.bucket, exist_ok=True)
        except self._refused as problem:
            raise StoreError(f"hf://buckets/{place}: {problem} (log in with: hf auth login)") from None
        self.folder = "/".join(parts[2:])

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def size(self, name: str) -> int | None:
        try:
            found = list(self.api.get_bucket_paths_info(self.bucket, [self._path(name)]))
        except self._refused as problem:
            raise StoreError(f"hf://buckets/{self.bucket}: {problem}") from None
        return int(found[0].size) if found else None

    def put(self, path: Path, name: str) -> None:
        try:
            self.api.batch_bucket_files(self.bucket, add=[(path, self._path(name))])
        except self._refused as problem:
            raise StoreError(f"hf://buckets/{self.bucket}/{self._path(name)}: {problem}") from None

    def link(self, name: str) -> str | None:
        return f"{self.api.endpoint}/buckets/{self.bucket}/resolve/{self._path(name)}"
