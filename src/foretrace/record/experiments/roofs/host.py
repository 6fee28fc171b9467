"""What lies between host and GPU: launches, transfers, and what an op costs the host."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F

from foretrace.record.experiments.roofs.timing import host_us, timing, wall_us

QUEUED = 500  # launches; the queue of a stream holds about a thousand
TRANSFERS = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
Call = Callable[[], object]


def empty() -> None:
    """The shortest kernel that torch launches."""
    torch.cuda._sleep(0)


def many() -> None:
    """Short kernels, one after the other."""
    for _ in range(QUEUED):
        empty()


def _graph(work: Call) -> torch.cuda.CUDAGraph:
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def stream_gap() -> dict[str, Any]:
    """GPU time from one queued kernel to the next."""
    ahead = int(QUEUED * 10e-6 * 2e9)  # cycles while the host queues them all

    for _ in range(2):
        many()
    torch.cuda.synchronize()
    taken = []
    for _ in range(7):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(ahead)
        start.record()
        many()
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end) * 1e3 / QUEUED)
    return {"median_us": median(taken), "low_us": min(taken), "high_us": max(taken)}


def graph_gap() -> dict[str, Any]:
    """GPU time from one kernel of a graph to the next."""
    taken = timing(_graph(many).replay, ahead=4_000_000)  # 2 ms: a large graph's launch
    return {name: value / QUEUED for name, value in taken.fields().items()}


# Host time of a launch, GPU time to the next kernel, and one kernel until it is done; of a stream
# and of a graph; and a wait for a GPU that is idle.
LAUNCHES: dict[str, Callable[[], dict[str, Any]]] = {
    "stream_host": lambda: host_us(empty, QUEUED).fields(),
    "stream_gap": stream_gap,
    "stream_round_trip": lambda: wall_us(empty, 101).fields(),
    "graph_host": lambda: host_us(_graph(empty).replay, 100).fields(),
    "graph_gap": graph_gap,
    "graph_round_trip": lambda: wall_us(_graph(empty).replay, 101).fields(),
    "synchronize": lambda: host_us(torch.cuda.synchronize, 200).fields(),
}


def transfer(memory: str, way: str, size: int) -> dict[str, Any]:
    """10^9 bytes per second between host and GPU, until the copy has arrived."""
    pinned = memory == "pinned"
    there = torch.empty(size, dtype=torch.int8, device="cuda")
    here = torch.empty(size, dtype=torch.int8, pin_memory=pinned)
    here.fill_(1)
    to, of = (there, here) if way == "up" else (here, there)
    repeats = 21 if size <= 1 << 20 else 7
    taken = wall_us(lambda: to.copy_(of, non_blocking=pinned), repeats)
    return {"gbps": size / taken.median_us / 1e3, "bytes": size, **taken.fields()}


class Operands:
    """Small tensors: what the GPU does with them takes less time than what the host does."""

    def __init__(self, device: str) -> None:
        size = 64 if device == "cuda" else 4  # a CPU does the work itself
        self.device, self.size = device, size
        kind: dict[str, Any] = {"device": device, "dtype": torch.bfloat16}
        self.x, self.w = (torch.randn(size, size, **kind) for _ in range(2))
        self.bias = torch.randn(size, **kind)
        self.wide = torch.randn(size, size, device=device)
        self.graded = torch.randn(size, size, device=device, requires_grad=True)


OPS: dict[str, Callable[[Operands], object]] = {
    "view": lambda at: at.x.view(-1),
    "empty": lambda at: torch.empty(64, 64, device=at.device),
    "add": lambda at: at.x + at.w,
    "add_": lambda at: at.x.add_(at.w),
    "mul scalar": lambda at: at.wide * 2,
    "cast": lambda at: at.wide.to(torch.bfloat16),
    "mm": lambda at: torch.mm(at.x, at.w),
    "linear with bias": lambda at: F.linear(at.x, at.w, at.bias),
    "gelu": lambda at: F.gelu(at.x),
    "softmax": lambda at: F.softmax(at.x, -1),
    "layer_norm": lambda at: F.layer_norm(at.x, (at.size,)),
    "sum": lambda at: at.x.sum(),
    "cat": lambda at: torch.cat((at.x, at.w)),
    "add with autograd": lambda at: at.graded + at.wide,
    "item": lambda at: at.bias[0].item(),
}


def op(name: str, device: str = "cuda") -> dict[str, Any]:
    """Host time of one op."""
    call, operands = OPS[name], Operands(device)
    return host_us(lambda: call(operands), 200).fields()
