"""The roofs of a CPU: caches and memory of one core and of all, and matmuls.

NumPy reads, writes and copies without the interpreter's lock, so that threads of Python use all
cores. Other programs take cores away at times, so the fastest repeat counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch

from foretrace.read.kineto.parallel import cores

Work = Callable[[], object]
Figure = tuple[str, str, Callable[[], float]]  # its group, its name there, and how to measure it
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


def figures() -> Iterator[Figure]:
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
    step: Work = {
        "read": partial(np.add.reduce, held),
        "write": partial(held.fill, 3),
        "copy": partial(np.copyto, held[count // 2 :], held[: count // 2]),
    }[way]

    def walk() -> None:
        for _ in range(rounds):
            step()

    step()
    return walk


def _together(calls: Sequence[Work]) -> float:
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
