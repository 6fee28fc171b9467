"""Small traces of captures and replays, as the profiler writes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Node = tuple[str, str, list[list[int]]]  # kernel, op, sizes of its tensors
LAYER: list[Node] = [
    ("nvjet_tst_64x64_64x6_2x1_v_bz_TNT", "aten::mm", [[8, 64], [64, 64]]),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >", "aten::add", [[8, 64], [8, 64]]),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda>", "aten::sigmoid", [[8, 64]]),
]  # fmt: skip


class Written:
    """Events of one process, one after the other."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now, self.correlation = 1000.0, 100

    def add(self, cat: str, name: str, dur: float = 1, **more: Any) -> dict[str, Any]:
        args = more.pop("args", {})
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1}
        event |= {"ts": self.now, "dur": dur, "args": args, **more}
        self.events.append(event)
        self.now += 1.5
        return event

    def call(self, name: str, **args: Any) -> int:
        self.correlation += 1
        self.add("cuda_runtime", name, args={"correlation": self.correlation, **args})
        return self.correlation

    def around(self, cat: str, name: str, start: float, **args: Any) -> None:
        self.add(cat, name, ts=start, dur=self.now - start, args=args)

    def save(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            json.dump({"schemaVersion": 1, "traceEvents": self.events}, file)
        return path


def captured(
    out: Written, nodes: Sequence[Node], *, named: bool = False, module: str = "", label: str = ""
) -> None:
    """One capture: a launch per node, below its op, in a module."""
    first = out.now
    out.call("cudaStreamBeginCapture")
    inside = out.now
    for kernel, op, sizes in nodes:
        start = out.now
        if kernel.startswith(("Memcpy", "Memset")):
            out.call("cudaMemcpyAsync" if kernel.startswith("Memcpy") else "cudaMemsetAsync")
        else:
            names = {"kernel": kernel} if named else {}
            out.call("hipLaunchKernel" if named else "cudaLaunchKernel", **names)
        types = ["float"] * len(sizes)
        out.around("cpu_op", op, start, **{"Input Dims": sizes, "Input type": types})
    if module:
        out.around("python_function", f"nn.Module: {module}", inside)
    out.call("cudaStreamEndCapture")
    if label:
        out.around("user_annotation", label, first)


def replayed(
    out: Written,
    nodes: Sequence[Node],
    *,
    streams: Sequence[int] = (7,),
    numbers: Sequence[int] = (),
    label: str = "",
    graph: int = 0,
) -> None:
    """One launch of a graph and its GPU work; `numbers` are those of the nodes."""
    start = out.now
    correlation = out.call("cudaGraphLaunch")
    if label:
        out.around("user_annotation", label, start)
    for at, (kernel, _, _) in enumerate(nodes):
        stream = streams[at % len(streams)]
        args: dict[str, Any] = {"device": 0, "stream": stream, "correlation": correlation}
        args |= {"grid": [1, 1, 1], "block": [128, 1, 1]}
        if graph:
            args |= {"graph id": graph, "graph node id": numbers[at] if numbers else at + 1}
        cat = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(kernel[:6], "kernel")
        out.add(cat, kernel, pid=0, tid=stream, args=args)


def stepped(out: Written, number: int, start: float) -> None:
    """Close a profiler step."""
    out.around("user_annotation", f"ProfilerStep#{number}", start)
