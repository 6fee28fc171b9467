"""`foretrace lab roofs`: measures this machine's GPU, or its CPU where there is none."""

from __future__ import annotations

import contextlib
import gc
import platform
import subprocess
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import torch

from foretrace.base.errors import MissingError
from foretrace.read.kineto.parallel import cores
from foretrace.record.experiments.roofs import cpu
from foretrace.record.experiments.roofs.cpu import Figure
from foretrace.work.devices import SCHEMA, BandwidthPoint, MeasuredRoofs

# an H200 takes a quarter of it
BUDGET_S = {"gpu": 80.0, "cpu": 50.0}
SAY_EVERY_S = 8.0
WARM_UP_S = 1.0  # until the clocks are those of a busy GPU


def roofs(device: str | None, say: Callable[[str], None]) -> MeasuredRoofs:
    """The roofs of the GPU, or of the CPU."""
    kind = "cpu" if device == "cpu" or not torch.cuda.is_available() else "gpu"
    if device == "cuda" and kind == "cpu":
        raise MissingError("torch sees no CUDA GPU: leave --device out to measure the CPU")
    began = time.monotonic()
    if kind == "gpu":
        try:
            from foretrace.record.experiments.roofs import gpu
        except ModuleNotFoundError as error:
            needs = "Triton on a GPU: pip install 'foretrace[kernels]'"
            raise MissingError(f"the kernels of `roofs` need {needs}") from error
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        while time.monotonic() - began < WARM_UP_S:
            for _ in range(20):
                torch.mm(a, a)
            torch.cuda.synchronize()
    figures, not_here = (
        (gpu.figures(), gpu.NOT_HERE) if kind == "gpu" else (cpu.figures(), cpu.NOT_HERE)
    )
    values, failed = measured(figures, say, BUDGET_S[kind])
    around = environment()
    rates: dict[int, dict[str, float]] = {}
    for name, rate in values.get("bandwidth", {}).items():
        way, size = name.split()
        rates.setdefault(int(size), {})[f"{way}_gbps"] = rate
    fastest: dict[str, float] = {}  # of the sizes of each type
    for name, rate in values.get("matmuls", {}).items():
        fastest[name.split()[0]] = max(fastest.get(name.split()[0], 0.0), rate)
    return MeasuredRoofs(
        SCHEMA,
        around["gpu"] if kind == "gpu" else cpu_name(),
        kind,
        "foretrace lab roofs",
        around,
        bandwidth=tuple(BandwidthPoint(size, **rates[size]) for size in sorted(rates)),
        all_cores_gbps=values.get("all_cores", {}),
        tflops=fastest,
        units_tflops=values.get("tensor_cores", {}),
        not_measured=not_here | failed,
        seconds=round(time.monotonic() - began, 1),
    )


def measured(
    figures: Iterable[Figure], say: Callable[[str], None], budget_s: float
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """The figures by group and name, and why others could not be measured.

    A figure has four digits: the fifth changes from run to run.
    """
    values: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}
    began = said = time.monotonic()
    for group, name, measure in figures:
        now = time.monotonic()
        if now - said > SAY_EVERY_S:
            said = now
            say(f"{now - began:5.0f} s  {group}: {name}")
        if now - began > budget_s:
            failed[f"{group}: {name}"] = "no time was left"
            continue
        try:
            values.setdefault(group, {})[name] = float(f"{measure():.4g}")
        except Exception as problem:  # noqa: BLE001 - the next figure may still be measured
            failed[f"{group}: {name}"] = f"{type(problem).__name__}: {problem}"[:500]
            gc.collect()  # what the failed one held on the GPU
    return values, failed


def cpu_name() -> str:
    """As the system calls it, with the number of its cores."""
    name = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        lines = listed.read_text(encoding="utf-8", errors="replace").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = models[0] if models else name
    return f"{name}, {cores()} cores"


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
