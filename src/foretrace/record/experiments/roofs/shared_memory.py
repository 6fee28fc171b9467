"""Shared memory of a GPU: bandwidth and latency.

Triton decides alone what lies in shared memory, so these kernels are CUDA, compiled by torch at run
time. Every thread moves 16 bytes at once, neighbours side by side: no two of them meet in a bank.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from foretrace.record.experiments.roofs.clock import Timing, timing

ROUNDS, THREADS, UNROLLED = 4096, 1024, 8
CHASED = 20_000
_WIDTH = 16  # bytes of one access
SOURCE = """
#define COUNT 2048
#define PART (COUNT - 1)
#define UNROLLED 8

__device__ void fill(int4* tile) {
    for (int i = threadIdx.x; i < COUNT; i += blockDim.x)
        tile[i] = make_int4(i * 40503, i ^ 77, i * 9, ~i);
    __syncthreads();
}

extern "C" __global__ void read_shared(int* out, int rounds) {
    __shared__ int4 tile[COUNT];
    fill(tile);
    int4 sum = make_int4(0, 0, 0, 0);
    int at = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        const int4* from = tile + (at & (COUNT / 2 - 1));
        #pragma unroll
        for (int step = 0; step < UNROLLED; ++step) {
            int4 got = from[step * (COUNT / 2 / UNROLLED)];
            sum.x ^= got.x; sum.y ^= got.y; sum.z ^= got.z; sum.w ^= got.w;
        }
        at += 8;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum.x + sum.y + sum.z + sum.w;
}

extern "C" __global__ void write_shared(int* out, int rounds) {
    __shared__ int4 tile[COUNT];
    fill(tile);
    int at = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        int4* to = tile + (at & (COUNT / 2 - 1));
        #pragma unroll
        for (int step = 0; step < UNROLLED; ++step)
            to[step * (COUNT / 2 / UNROLLED)] = make_int4(at, round, step, at);
        at += 8;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x].x + tile[threadIdx.x].y;
}

extern "C" __global__ void copy_shared(int* out, int rounds) {
    __shared__ int4 tile[COUNT];
    fill(tile);
    int at = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        int4* from = tile + (at & (COUNT / 4 - 1));
        #pragma unroll
        for (int step = 0; step < UNROLLED; ++step)
            from[COUNT / 2 + step * (COUNT / 4 / UNROLLED)] = from[step * (COUNT / 4 / UNROLLED)];
        at += 8;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[COUNT / 2 + (threadIdx.x & 511)].x;
}

extern "C" __global__ void chase_shared(int* out, int steps) {
    __shared__ int chain[4096];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) chain[i] = (i + 1057) & 4095;
    __syncthreads();
    int at = threadIdx.x;
    for (int step = 0; step < steps; ++step) at = chain[at];
    out[threadIdx.x] = at;
}
"""


@cache
def kernel(name: str) -> Callable[..., None]:
    """A kernel of `SOURCE`, compiled."""
    found: Any = torch.cuda._compile_kernel(SOURCE, name)
    return found  # type: ignore[no-any-return]


def launch(way: str) -> tuple[Callable[[], None], int]:
    """One launch that reads, writes or copies on every multiprocessor, and the bytes it moves."""
    run = kernel(f"{way}_shared")
    grid = 2 * torch.cuda.get_device_properties().multi_processor_count
    out = torch.empty(grid * THREADS, dtype=torch.int32, device="cuda")
    accesses = grid * THREADS * ROUNDS * UNROLLED * (2 if way == "copy" else 1)
    return lambda: run((grid, 1, 1), (THREADS, 1, 1), [out, ROUNDS]), accesses * _WIDTH


def bandwidth(way: str) -> dict[str, Any]:
    """All multiprocessors together, in 10^9 bytes per second."""
    work, moved = launch(way)
    taken = timing(work)
    return {"gbps": moved / taken.median_us / 1e3, "bytes": moved, **taken.fields()}


def latency() -> dict[str, Any]:
    """Nanoseconds of one load that depends on the load before."""
    run = kernel("chase_shared")
    out = torch.empty(32, dtype=torch.int32, device="cuda")

    def taken(steps: int) -> Timing:
        return timing(lambda: run((1, 1, 1), (32, 1, 1), [out, steps]))

    short, long = taken(CHASED), taken(3 * CHASED)
    return {"load_ns": (long.median_us - short.median_us) * 1e3 / (2 * CHASED)}
