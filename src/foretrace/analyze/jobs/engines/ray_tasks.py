"""The same on a Ray cluster: one task per file, a bounded number of them at once.

A task is given a path and limits, and gives plain bytes back. Ray runs it again when its worker or
its node dies. Every node needs foretrace, and a way to the files: a shared folder, or a bucket. A
file that a node cannot open is read here, where it may be.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from foretrace.analyze.jobs.engines.local import encoded
from foretrace.analyze.jobs.parts import FileAnswer
from foretrace.base.budget import Limits
from foretrace.base.errors import MissingError, UsageError
from foretrace.model import opening

RETRIES = 3  # of a task whose worker or node died
_WAITING = 2  # tasks for each core: one runs, the next is ready
_KNOCK_S = 10
_NOT_THERE = "E_UNREADABLE"


def answers(
    files: Mapping[str, int], limits: Limits, cache: bool, address: str
) -> Iterator[tuple[str, FileAnswer]]:
    """What each file (with its size) is reduced to, as the answers come."""
    ray, started = _connected(address)
    try:
        for path, content in _contents(ray, files, limits, cache):
            if content is None:
                yield path, FileAnswer(left_out=opening.ended(path))
                continue
            found = msgspec.msgpack.decode(content, type=FileAnswer)
            if found.left_out and found.left_out.code == _NOT_THERE and os.path.isfile(path):
                found = msgspec.msgpack.decode(encoded(path, limits, cache), type=FileAnswer)
            yield path, found
    finally:
        if started:
            ray.shutdown()


def _connected(address: str) -> tuple[Any, bool]:
    """Ray, and whether this call connected it."""
    try:
        import ray
    except ImportError:
        needs = "--ray needs Ray: pip install 'foretrace[ray]'"
        raise MissingError(needs) from None
    if ray.is_initialized():
        return ray, False
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as problem:
        what = f"--ray {address}: no Ray cluster answers ({problem})"
        raise UsageError(f"{what}; start one with: ray start --head") from None
    return ray, True


def _knock(address: str) -> None:
    """Ray waits for minutes where nobody listens."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


def _contents(
    ray: Any, files: Mapping[str, int], limits: Limits, cache: bool
) -> Iterator[tuple[str, bytes | None]]:
    """The bytes of each file's answer; None where every worker that read it died."""
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(encoded)
    most = max(int(ray.cluster_resources().get("CPU", 1)), 1) * _WAITING
    queue, running = deque(files), dict[Any, str]()
    try:
        while queue or running:
            while queue and len(running) < most:
                path = queue.popleft()
                running[task.remote(path, limits, cache)] = path
            done, _ = ray.wait(list(running), num_returns=1)
            for each in done:
                yield running.pop(each), _content(ray, each)
    finally:
        for each in running:  # Ctrl+C: what runs now is not waited for
            ray.cancel(each, force=True)


def _content(ray: Any, task: Any) -> bytes | None:
    errors = ray.exceptions
    try:
        content: bytes = ray.get(task)
    except errors.RayTaskError as problem:
        if "import" in str(problem):
            what = "a node of the Ray cluster cannot import foretrace"
            raise MissingError(f"{what}: install the same version on every node") from None
        raise
    except errors.RayError:  # its worker died, and so did those that tried again
        return None
    return content
