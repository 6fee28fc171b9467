"""`foretrace lab roofs`: measures this machine's GPU, or its CPU where there is none."""

from __future__ import annotations

import contextlib
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from foretrace.base.errors import MissingError
from foretrace.read.kineto.parallel import cores
from foretrace.record.experiments.roofs import cpu
from foretrace.record.experiments.roofs.timing import measured, warm_up
from foretrace.schema.device import SCHEMA, BandwidthPoint, LatencyPoint, MeasuredRoofs

Group = Mapping[str, Mapping[str, Any]]
# an H200 takes about a minute
BUDGET_S = {"gpu": 110.0, "cpu": 50.0}
# the value of a figure, by its group
_VALUES = {
    "all_cores": "gbps",
    "shared": "gbps",
    "tensor_cores": "tflops",
    "launches": "median_us",
    "transfers": "gbps",
    "host": "median_us",
    "gelu_mul": "gbps",
}


def roofs(device: str | None, say: Callable[[str], None]) -> MeasuredRoofs:
    """Every figure of the GPU, or of the CPU."""
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
        warm_up()
        found, not_here = measured(gpu.figures(), say, BUDGET_S["gpu"]), gpu.NOT_HERE
    else:
        found, not_here = measured(cpu.figures(), say, BUDGET_S["cpu"]), cpu.NOT_HERE
    around = environment()
    name = around["gpu"] if kind == "gpu" else cpu_name()
    seconds = time.monotonic() - began
    return roofs_document(found, around, device=name, kind=kind, not_here=not_here, seconds=seconds)


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


def roofs_document(
    found: Mapping[str, Group],
    environment: Mapping[str, str],
    *,
    device: str,
    kind: str,
    not_here: Mapping[str, str],
    seconds: float,
) -> MeasuredRoofs:
    """The document; a figure with an `error` is one that was not measured."""
    values = {group: _values(found, group, key) for group, key in _VALUES.items()}
    loads = {int(size): ns for size, ns in _values(found, "latency", "load_ns").items()}
    failed = {
        f"{group}: {name}": figure["error"]
        for group, figures in found.items()
        for name, figure in figures.items()
        if "error" in figure
    }
    return MeasuredRoofs(
        SCHEMA,
        device,
        kind,
        "foretrace lab roofs",
        dict(environment),
        bandwidth=_bandwidth(_values(found, "bandwidth", "gbps")),
        latency=tuple(LatencyPoint(size, loads[size]) for size in sorted(loads)),
        all_cores_gbps=values["all_cores"],
        shared_gbps=values["shared"],
        shared_load_ns=_values(found, "shared", "load_ns").get("latency"),
        tflops=_matmuls(_values(found, "matmuls", "tflops")),
        units_tflops=values["tensor_cores"],
        launch_us=values["launches"],
        transfer_gbps=values["transfers"],
        host_us=values["host"],
        behind_gbps=values["gelu_mul"],
        not_measured=dict(not_here) | failed,
        seconds=round(seconds, 1),
    )


def _values(found: Mapping[str, Group], group: str, key: str) -> dict[str, float]:
    """One value of each figure of a group, with four digits: the fifth changes from run to run."""
    figures = found.get(group, {}).items()
    return {name: float(f"{figure[key]:.4g}") for name, figure in figures if key in figure}


def _bandwidth(found: Mapping[str, float]) -> tuple[BandwidthPoint, ...]:
    """`read 65536`, `write 65536` and `copy 65536` make one point."""
    rates: dict[int, dict[str, float]] = {}
    for name, rate in found.items():
        way, size = name.split()
        rates.setdefault(int(size), {})[f"{way}_gbps"] = rate
    return tuple(BandwidthPoint(size, **rates[size]) for size in sorted(rates))


def _matmuls(found: Mapping[str, float]) -> dict[str, float]:
    """The fastest size of each type."""
    best: dict[str, float] = {}
    for name, rate in found.items():
        dtype = name.split()[0]
        best[dtype] = max(best.get(dtype, 0.0), rate)
    return best
