"""The machine that was measured: its card, versions, and its clocks while it was measured."""

from __future__ import annotations

import contextlib
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import torch

_QUERY = "clocks.sm,clocks.mem,power.draw,temperature.gpu"
SAMPLE_MS = 500


def environment() -> dict[str, str]:
    """Card and versions."""
    found = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with contextlib.suppress(ImportError):
        import triton

        found["triton"] = triton.__version__
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties()
        found |= {
            "gpu": card.name,
            "arch": f"sm_{card.major}{card.minor}",
            "sms": str(card.multi_processor_count),
            "memory_bytes": str(card.total_memory),
            "l2_bytes": str(card.L2_cache_size),
            "driver": _asked("driver_version"),
            "largest_clocks": _asked("clocks.max.sm,clocks.max.mem"),
            "power_limit": _asked("power.limit"),
        }
    return found


def _asked(query: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"unknown: {problem}"
    return said.stdout.strip()


@contextlib.contextmanager
def clocks() -> Iterator[list[str]]:
    """Clocks, power and temperature every half second, as `nvidia-smi` writes them; the list is
    filled at the end, its first line says when it began.
    """
    samples: list[str] = [f"{time.time():.2f} every {SAMPLE_MS} ms: {_QUERY}"]
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    if shutil.which("stdbuf"):  # a process that is ended keeps what it has not flushed
        command = ["stdbuf", "-oL", *command]
    try:
        process: subprocess.Popen[str] = subprocess.Popen(
            [*command, "-lms", str(SAMPLE_MS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError as problem:
        samples.append(f"unknown: {problem}")
        yield samples
        return
    try:
        yield samples
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            output: Any = process.communicate(timeout=10)[0]
            samples.extend(line.strip() for line in output.splitlines())
