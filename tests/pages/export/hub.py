"""The Hugging Face Hub of the tests: the functions of `huggingface_hub` that foretrace calls.

Each call is checked against the signature of the library's own function.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest

OWNER = "tester"
_HF = huggingface_hub.HfApi


def checked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The call must fit the library."""

    def call(self: Hub, *args: Any, **given: Any) -> Any:
        inspect.signature(getattr(_HF, method.__name__)).bind(self, *args, **given)
        if method.__name__ in self.refuses:
            raise self.refuses[method.__name__]
        self.calls.append(method.__name__)
        return method(self, *args, **given)

    return call


class Hub:
    """`held` are the files of its one bucket; a job writes `writes` to its folder."""

    endpoint = "https://hub.example"

    def __init__(self, tmp_path: Path) -> None:
        self.held: dict[str, bytes] = {}
        self.writes: dict[str, bytes] = {}
        self.stages = ["RUNNING", "COMPLETED"]
        self.calls: list[str] = []
        self.refuses: dict[str, Exception] = {}
        self.private = True
        self.job: dict[str, Any] = {}
        self.program = ""

    def records(self, files: dict[str, bytes]) -> None:
        """The next job brings these traces and their sums."""
        self.writes = {f"traces/{name}": content for name, content in files.items()}
        sums = (
            f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in self.writes.items()
        )
        self.writes["SHA256SUMS"] = "".join(sums).encode()

    @checked
    def whoami(self) -> dict[str, str]:
        return {"name": OWNER}

    @checked
    def create_bucket(self, bucket_id: str, **_: Any) -> None:
        self.bucket = bucket_id

    @checked
    def bucket_info(self, bucket_id: str) -> Any:
        return SimpleNamespace(private=self.private)

    @checked
    def batch_bucket_files(self, bucket_id: str, *, add: list[tuple[Any, str]]) -> None:
        for content, name in add:
            self.held[name] = content if isinstance(content, bytes) else Path(content).read_bytes()

    @checked
    def list_bucket_tree(self, bucket_id: str, *, prefix: str | None, recursive: bool) -> list[Any]:
        names = [name for name in self.held if name.startswith(prefix or "")]
        return [SimpleNamespace(path=name, size=len(self.held[name])) for name in names]

    @checked
    def download_bucket_files(self, bucket_id: str, files: list[tuple[str, Path]]) -> None:
        for name, target in files:
            if name in self.held:
                target.write_bytes(self.held[name])

    @checked
    def run_uv_job(self, script: str, **job: Any) -> Any:
        self.job, self.program = job, Path(script).read_text()
        run = job["volumes"][0].path
        self.held |= {f"{run}/{name}": content for name, content in self.writes.items()}
        return SimpleNamespace(id="687fb7", url=f"{self.endpoint}/jobs/{OWNER}/687fb7")

    @checked
    def inspect_job(self, *, job_id: str, namespace: str) -> Any:
        stage = self.stages.pop(0) if len(self.stages) > 1 else self.stages[0]
        return SimpleNamespace(status=SimpleNamespace(stage=stage))

    @checked
    def fetch_job_logs(self, *, job_id: str, namespace: str) -> list[str]:
        return ["Traceback", "ValueError: no GPU"]


def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """The Hub in the place of the real one."""
    hub = Hub(tmp_path)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda **_: hub)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_test")
    return hub
