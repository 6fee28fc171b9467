"""`foretrace lab roofs`: what this GPU can do at most, or this CPU where there is none, measured.

`gpu` has the figures of a card. This file measures a CPU: caches and memory of one core and of all,
and matmuls. NumPy reads, writes and copies without the interpreter's lock, so that threads of
Python use all cores. Other programs take cores away at times, so the fastest repeat counts.
"""

from __future__ import annotations

import contextlib
import gc
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import torch

from foretrace.base.errors import MissingError
from foretrace.read.kineto.parallel import cores
from foretrace.record.experiments.machine import Call, Figure
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
    if kind == "gpu":
        figures, not_here = gpu.figures(), gpu.NOT_HERE
    else:
        figures, not_here = cpu_figures(), NOT_HERE
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


SMALLEST, LARGEST = 256 << 10, 256 << 20  # a call of NumPy takes as long as reading 20 kB
ALL_CORES = 512 << 20  # bytes of each core: beyond what its share of any cache holds
MOVED = 1 << 28
REPEATS = 7
ENOUGH_S, LARGEST_MATMUL = 0.1, 4096
WAYS = ("read", "write", "copy")
# what needs a GPU or compiled code, for whoever looks for it
NOT_HERE = {"tensor_cores": "no CUDA GPU"} | dict.fromkeys(
    ("first caches", "units alone"), "a call of NumPy takes too long"
)


def cpu_figures() -> Iterator[Figure]:
    """All figures; those of a group follow each other."""
    size = SMALLEST
    while size <= LARGEST:  # from a second cache to memory
        for way in WAYS:
            yield "bandwidth", f"{way} {size}", partial(bandwidth, way, size, 1)
        size *= 2
    for way in WAYS:
        yield "all_cores", way, partial(bandwidth, way, ALL_CORES, cores())
    for name in ("fp32", "bf16"):
        yield "matmuls", name, partial(matmul, name)


def bandwidth(way: str, size: int, threads: int) -> float:
    """10^9 bytes per second of all threads, each with a working set of its own."""
    rounds = max(1, MOVED // size)
    walks = [_walk(way, size, rounds) for _ in range(threads)]
    return size * rounds * threads / min(_together(walks) for _ in range(REPEATS)) / 1e9


def _walk(way: str, size: int, rounds: int) -> Callable[[], None]:
    """Goes through a working set so many times; half of that of a copy is its source."""
    count = size // 8
    held = np.ones(count, dtype=np.uint64)  # written: memory is real from then on
    step: Call = {
        "read": partial(np.add.reduce, held),
        "write": partial(held.fill, 3),
        "copy": partial(np.copyto, held[count // 2 :], held[: count // 2]),
    }[way]

    def walk() -> None:
        for _ in range(rounds):
            step()

    step()
    return walk


def _together(calls: Sequence[Call]) -> float:
    """Seconds until all calls are done."""
    if len(calls) == 1:
        start = time.perf_counter()
        calls[0]()
        return time.perf_counter() - start
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(time.sleep, [0.001] * len(calls)))  # the threads are there
        start = time.perf_counter()
        list(pool.map(lambda call: call(), calls))
        return time.perf_counter() - start


def matmul(name: str) -> float:
    """TFLOP/s of a square matmul through torch: the largest that is done in a tenth of a second.

    A CPU without instructions for a type takes a thousand times longer than one with them.
    """
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[name]
    size = 64
    while True:
        a, b = (torch.randn(size, size, dtype=dtype) for _ in range(2))
        torch.mm(a, b)
        seconds = min(_together([partial(torch.mm, a, b)]) for _ in range(REPEATS))
        if seconds > ENOUGH_S / 8 or size >= LARGEST_MATMUL:
            return 2 * size**3 / seconds / 1e12
        size *= 2
