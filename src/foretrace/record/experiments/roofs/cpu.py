"""Every figure of a CPU: caches and memory of one core and of all, FMA rate, matmuls, op overhead.

Loops are C and run without the interpreter's lock, so that threads of Python use all cores. Other
programs take cores away at times, so the fastest repeat counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch

from foretrace.record.experiments.roofs import host
from foretrace.record.experiments.roofs.cpu_code import CHAINS, library
from foretrace.record.experiments.roofs.figure import Figure

SMALLEST, LARGEST = 16 << 10, 256 << 20
ALL_CORES = 512 << 20  # bytes of each core: beyond what its share of any cache holds
LINE = 128  # bytes between the links of a chain: lines are 64 bytes, and prefetched in pairs
ALIGNED = 64
MOVED = 1 << 28
STEPS = 200_000
REPEATS = 7
FMA_ROUNDS = 1_000_000
ENOUGH_S, LARGEST_MATMUL = 0.1, 4096
WAYS = ("read", "write", "copy")
# what needs a GPU, for whoever looks for it
NOT_HERE = dict.fromkeys(
    ("shared", "tensor_cores", "atomics", "launches", "transfers", "gelu_mul"), "no CUDA GPU"
)


def figures() -> Iterator[Figure]:
    """All figures; those of a group follow each other."""
    for size in working_sets():
        for way in WAYS:
            yield Figure("bandwidth", f"{way} {size}", partial(bandwidth, way, size, 1))
    for way in WAYS:
        yield Figure("all_cores", way, partial(bandwidth, way, ALL_CORES, cores()))
    for size in working_sets():
        yield Figure("latency", f"{size}", partial(latency, size))
    for name in ("fp32", "fp64"):
        yield Figure("fma", name, partial(fma, name))
    for name in ("fp32", "bf16"):
        yield Figure("matmuls", name, partial(matmul, name))
    for name in host.OPS:
        yield Figure("host", name, partial(host.op, name, "cpu"))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def working_sets() -> Iterator[int]:
    """Powers of two, from a first cache to memory."""
    size = SMALLEST
    while size <= LARGEST:
        yield size
        size *= 2


def bandwidth(way: str, size: int, threads: int) -> dict[str, Any]:
    """10^9 bytes per second of all threads, each with a working set of its own."""
    walks = [_walk(way, size) for _ in range(threads)]
    rounds = max(1, MOVED // size)
    taken = [_together([partial(walk, rounds) for walk in walks]) for _ in range(REPEATS)]
    moved = size * rounds * threads
    return {"gbps": moved / min(taken) / 1e9, "threads": threads, "bytes": moved}


def _walk(way: str, size: int) -> Callable[[int], object]:
    """A loop over a working set, which is written once before: memory is real from then on."""
    copies = way == "copy"
    size = size // 2 if copies else size
    held = [_aligned(size) for _ in range(1 + copies)]
    places = [array.ctypes.data for array in held]
    function = getattr(library(), f"{way}_set")

    def walk(rounds: int) -> object:
        return held and function(*places, size, rounds)

    walk(1)
    return walk


def _aligned(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    array = np.ones(size + ALIGNED, dtype=np.uint8)
    start = -array.ctypes.data % ALIGNED
    return array[start : start + size]


def _together(calls: Sequence[Callable[[], object]]) -> float:
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


def latency(size: int) -> dict[str, Any]:
    """Nanoseconds of one load that depends on the load before, at random over a working set."""
    apart, links = LINE // 8, size // LINE
    order = np.random.default_rng(0).permutation(links).astype(np.uint64)
    chain = np.zeros(size // 8, dtype=np.uint64)
    chain[order * apart] = np.roll(order, -1) * apart
    loops, at = library(), 0
    at = loops.chase(chain.ctypes.data, at, min(links, STEPS))
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        at = loops.chase(chain.ctypes.data, at, STEPS)
        taken.append((time.perf_counter() - start) / STEPS * 1e9)
    return {"load_ns": min(taken)}


def fma(name: str) -> dict[str, Any]:
    """TFLOP/s of all cores in vector registers; a multiplication and an addition are two."""
    wide = {"fp32": ("float", 4), "fp64": ("double", 8)}[name]
    function = getattr(library(), f"fma_{wide[0]}")
    threads = cores()
    calls = [partial(function, FMA_ROUNDS, 0.5)] * threads
    seconds = min(_together(calls) for _ in range(REPEATS))
    lanes = library().width() // wide[1]
    flops = 2 * CHAINS * lanes * FMA_ROUNDS * threads
    return {"tflops": flops / seconds / 1e12, "threads": threads}


def matmul(name: str) -> dict[str, Any]:
    """TFLOP/s of a square matmul through torch: the largest that is done in a tenth of a second.

    A CPU without instructions for a type takes a thousand times longer than one with them.
    """
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[name]
    size, seconds = 64, 0.0
    while True:
        a, b = (torch.randn(size, size, dtype=dtype) for _ in range(2))
        torch.mm(a, b)
        seconds = min(_together([partial(torch.mm, a, b)]) for _ in range(REPEATS))
        if seconds > ENOUGH_S / 8 or size >= LARGEST_MATMUL:
            return {"tflops": 2 * size**3 / seconds / 1e12, "size": size}
        size *= 2
