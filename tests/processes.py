"""Other processes, as the kernel sees them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def _children(of: int) -> Iterator[Path]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end meanwhile
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == of and b"query_child" in (entry / "cmdline").read_bytes():
                yield entry


def _is_busy(process: Path) -> bool:
    """Whether it has given up the right to open files, as it does right before its query."""
    with suppress(OSError):
        limits = (process / "limits").read_text().splitlines()
        return any(line.split()[:4] == ["Max", "open", "files", "0"] for line in limits)
    return False


def query_process(of: int) -> int:
    """The process that runs a query for another one."""
    for _ in range(2400):
        for process in _children(of):
            if _is_busy(process):
                return int(process.name)
        time.sleep(0.05)
    raise AssertionError("no query process")


def until_started(pid: int) -> None:
    """Until the process has become the program it was started for."""
    while not Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.01)


def until_gone(pid: int) -> None:
    """Fails when the process is still there after two minutes; one that nobody has waited for is gone."""
    for _ in range(2400):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} still runs")
