"""How long work takes on a GPU or a host, and figures that are measured one by one."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

Work = Callable[[], object]
Found = dict[str, dict[str, dict[str, Any]]]  # figures by group and name
SAY_EVERY_S = 8.0
REPEATS = 7
AHEAD = 200_000  # GPU cycles, about 100 us: the host queues a launch meanwhile


class Timing(NamedTuple):
    """Microseconds of one call: median, fastest and slowest."""

    median_us: float
    low_us: float
    high_us: float

    @staticmethod
    def of(values: list[float]) -> Timing:
        """Of several calls."""
        return Timing(median(values), min(values), max(values))

    def fields(self) -> dict[str, float]:
        """As JSON keeps them."""
        return {name: round(value, 4) for name, value in self._asdict().items()}


def timing(
    work: Work, repeats: int = REPEATS, *, ahead: int = AHEAD, before: Work | None = None
) -> Timing:
    """Device time of one call, after two warm ones; the host queues it within `ahead` cycles.

    `before` runs ahead of every call and is not timed.
    """
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    marks = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if before is not None:
            before()
        torch.cuda._sleep(ahead)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        marks.append(start.elapsed_time(end) * 1e3)
    return Timing.of(marks)


def sustained_us(work: Work, one_us: float, seconds: float = 0.3) -> float:
    """Device time of a call in a row of calls that takes `seconds`: clocks and power settle."""
    calls = max(3, int(seconds * 1e6 / one_us))
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    work()
    start.record()
    for _ in range(calls):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / calls


def host_us(work: Work, calls: int, repeats: int = REPEATS) -> Timing:
    """Host time of one call, among calls that find the queue short."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    work()
    taken = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        taken.append((time.perf_counter() - start) / calls * 1e6)
    wait()
    return Timing.of(taken)


def wall_us(work: Work, repeats: int = 21) -> Timing:
    """Host time of one call until the GPU has finished it."""
    for _ in range(3):
        work()
    taken = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - start) * 1e6)
    return Timing.of(taken)


def warm_up(seconds: float = 1.0) -> None:
    """Multiply until the clocks are those of a busy GPU."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(20):
            torch.mm(a, a)
        torch.cuda.synchronize()


class Figure(NamedTuple):
    """What is measured: its group, its name there, and how."""

    group: str
    name: str
    measure: Callable[[], dict[str, Any]]


def measured(
    figures: Iterable[Figure], say: Callable[[str], None], budget_s: float = 600.0
) -> Found:
    """Figures by group and name; `error` instead of a figure that could not be measured."""
    found: Found = {}
    began = said = time.monotonic()
    for figure in figures:
        now = time.monotonic()
        if now - said > SAY_EVERY_S:
            said = now
            say(f"{now - began:5.0f} s  {figure.group}: {figure.name}")
        late = now - began > budget_s
        result = {"error": "no time was left"} if late else _one(figure)
        found.setdefault(figure.group, {})[figure.name] = result
    return found


def _one(figure: Figure) -> dict[str, Any]:
    start = time.time()
    try:
        result = figure.measure()
    except Exception as problem:  # noqa: BLE001 - the next figure may still be measured
        result = {"error": f"{type(problem).__name__}: {problem}"[:500]}
        gc.collect()  # what the failed one held on the GPU
    return {**result, "at": round(start, 2), "seconds": round(time.time() - start, 3)}


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


def gap(work: Call, ahead: int) -> dict[str, Any]:
    """GPU time from one of many kernels to the next; the host queues them within `ahead` cycles."""
    return {name: us / QUEUED for name, us in timing(work, ahead=ahead).fields().items()}


# Host time of a launch, GPU time to the next kernel, and one kernel until it is done; of a stream
# and of a graph; and a wait for a GPU that is idle.
LAUNCHES: dict[str, Callable[[], dict[str, Any]]] = {
    "stream_host": lambda: host_us(empty, QUEUED).fields(),
    "stream_gap": lambda: gap(many, 10_000_000),  # 5 ms: so many launches
    "stream_round_trip": lambda: wall_us(empty, 101).fields(),
    "graph_host": lambda: host_us(_graph(empty).replay, 100).fields(),
    "graph_gap": lambda: gap(_graph(many).replay, 4_000_000),  # 2 ms: a large graph's launch
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
