"""A Hub of the tests' own with jobs: it checks what is sent, and its jobs write files.

Uploads, listings and downloads go through huggingface_hub unchanged; only the address is this
machine's.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import unquote

from show.share.hub import Hub, _Answer, served

TOKEN, OWNER, JOB = "hf_ofthetests", "tester", "687fb701029421ae5549d998"
BUCKET = f"{OWNER}/foretrace-runs"


class JobsHub(Hub):
    """`writes` are the files of the next job below its run's folder, `stages` what polls answer.

    `refuses` maps the start of a path to a status; `sent` has the bodies by path.
    """

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _JobsAnswer
        self.writes: dict[str, bytes] = {}
        self.stages = ["SCHEDULING", "RUNNING", "COMPLETED"]
        self.message: str | None = None
        self.log: list[str] = []
        self.refuses: dict[str, int] = {}
        self.sent: dict[str, Any] = {}
        self.tokens: set[str | None] = set()
        self.private = True
        self.spec: dict[str, Any] = {}

    def records(self, traces: dict[str, bytes], *, sums: bool = True) -> None:
        """The next job writes these files to its folder of traces, and their sums."""
        self.writes = {f"traces/{name}": content for name, content in traces.items()}
        lines = [
            f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in self.writes.items()
        ]
        if sums:
            self.writes["SHA256SUMS"] = "".join(lines).encode()

    @property
    def run(self) -> str:
        return str(self.spec["volumes"][0]["path"])

    def job(self) -> dict[str, Any]:
        stage = self.stages.pop(0) if len(self.stages) > 1 else self.stages[0]
        return {
            "id": JOB,
            "createdAt": "2026-01-01T00:00:00.000Z",
            "owner": {"id": "1", "name": OWNER, "type": "user"},
            "status": {"stage": stage, "message": self.message},
            **{name: self.spec[name] for name in ("command", "flavor", "volumes", "dockerImage")},
        }


class _JobsAnswer(_Answer):
    server: JobsHub

    def do_GET(self) -> None:
        hub, path = self.server, unquote(self.path.partition("?")[0])
        if self._refused(path):
            return None
        if path == "/api/jobs/hardware":
            return self._json([_kind("cpu-basic", 0.000167), _kind("a10g-small", 0.016667)])
        if path == f"/api/jobs/{OWNER}/{JOB}":
            return self._json(hub.job())
        if path == f"/api/jobs/{OWNER}/{JOB}/logs":
            return self._events(
                [{"data": line, "timestamp": "2026-01-01T00:00:00.000Z"} for line in hub.log]
            )
        if path == f"/api/buckets/{BUCKET}":
            about = {"id": BUCKET, "private": hub.private, "size": 0, "totalFiles": 0}
            return self._json({**about, "createdAt": "2026-01-01T00:00:00.000Z"})
        if path.startswith(f"/api/buckets/{BUCKET}/tree"):
            return self._json(
                [
                    {
                        "type": "file",
                        "path": f"{hub.run}/{name}",
                        "size": len(data),
                        "xetHash": "0" * 64,
                    }
                    for name, data in hub.writes.items()
                ]
            )
        name = path.removeprefix(f"/buckets/{BUCKET}/resolve/{hub.spec and hub.run}/")
        if name in hub.writes:
            return self._bytes(hub.writes[name])
        return super().do_GET()

    def do_POST(self) -> None:
        hub, path = self.server, self.path
        if self._refused(path):
            return None
        if path == f"/api/jobs/{OWNER}":
            hub.spec = hub.sent[path] = json.loads(self._note())
            return self._json(hub.job())
        if path == f"/api/buckets/{BUCKET}":
            hub.sent[path] = json.loads(self._note())
            return self._json({"url": f"{hub.address}/buckets/{BUCKET}"})
        return super().do_POST()

    def _refused(self, path: str) -> bool:
        if path.startswith((f"/api/jobs/{OWNER}", f"/api/buckets/{BUCKET}", "/buckets/")):
            self.server.tokens.add(self.headers.get("Authorization"))
        for start, status in self.server.refuses.items():
            if path.startswith(start):
                self._note()
                self._json({"error": "refused by the tests"}, status)
                return True
        return False

    def _events(self, events: list[dict[str, str]]) -> None:
        self._bytes("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode())

    def _bytes(self, data: bytes) -> None:
        self._note()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_HEAD = do_GET
    do_PUT = do_POST


def _kind(name: str, usd: float) -> dict[str, Any]:
    cost = {"unitCostMicroUSD": int(usd * 1e6), "unitCostUSD": usd, "unitLabel": "minute"}
    return {"name": name, "prettyName": name, "cpu": "2 vCPU", "ram": "16 GB", **cost}


def running() -> AbstractContextManager[JobsHub]:
    return served(JobsHub())
