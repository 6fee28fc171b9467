"""A fluent builder for traces with exact numbers.

    trace = (TraceBuilder()
             .step(2, 0, 10_000)
             .op("aten::mm", 1_000, 4_000, dims=[[8, 8], [8, 8]])
             .launch(2_000, 500)
             .kernel("sgemm", 3_000, 1_500))
    path.write_bytes(trace.bytes())

Every time is in nanoseconds after `origin_ns` (which keeps clear of ts 0, a time Kineto writes for
"unknown"). Calls take the thread of the builder unless `tid` says otherwise; GPU work takes the
correlation of the last launch unless `correlation` says otherwise, so one `.launch()` followed by
many `.kernel()` is a graph.
"""

from __future__ import annotations

from typing import Any

from corpus.build import Doc, Event, complete, flow, instant

RUNTIME, DRIVER = "cuda_runtime", "cuda_driver"


class TraceBuilder:
    """Collects events in file order; `doc()` and `bytes()` write them out."""

    def __init__(
        self,
        *,
        pid: int = 100,
        tid: int = 100,
        device: int = 0,
        stream: int = 7,
        origin_ns: int = 1_000_000,
        header: Event | None = None,
    ) -> None:
        self.pid, self.tid, self.device, self.stream, self.origin_ns = (
            pid,
            tid,
            device,
            stream,
            origin_ns,
        )
        self.header = header or {}
        self.events: list[Event] = []
        self.external = 0
        self.correlation = 0

    # ---- host

    def host(
        self,
        cat: str,
        name: str,
        ts: int,
        dur: int,
        *,
        tid: int | None = None,
        args: Event | None = None,
    ) -> TraceBuilder:
        """Any host range."""
        tid = self.tid if tid is None else tid
        self.events.append(complete(cat, name, self.pid, tid, self.origin_ns + ts, dur, args))
        return self

    def step(self, index: int, ts: int, dur: int, **more: Any) -> TraceBuilder:
        return self.region(f"ProfilerStep#{index}", ts, dur, **more)

    def region(self, name: str, ts: int, dur: int, **more: Any) -> TraceBuilder:
        """A `record_function` range."""
        self.external += 1
        return self.host(
            "user_annotation", name, ts, dur, args={"External id": self.external}, **more
        )

    def op(
        self,
        name: str,
        ts: int,
        dur: int,
        *,
        dims: list[Any] | None = None,
        types: list[str] | None = None,
        strides: list[Any] | None = None,
        args: Event | None = None,
        tid: int | None = None,
    ) -> TraceBuilder:
        """A cpu_op, with the shapes, types and strides of its inputs where given."""
        self.external += 1
        given = {
            "External id": self.external,
            "Input Dims": dims,
            "Input type": types,
            "Input Strides": strides,
        }
        kept = {key: value for key, value in given.items() if value is not None}
        return self.host("cpu_op", name, ts, dur, args=kept | (args or {}), tid=tid)

    def call(
        self,
        name: str,
        ts: int,
        dur: int,
        *,
        cat: str = RUNTIME,
        correlation: int | None = None,
        args: Event | None = None,
        tid: int | None = None,
    ) -> TraceBuilder:
        """A runtime or driver call; it takes the next correlation unless one is given."""
        self.correlation = self.correlation + 1 if correlation is None else correlation
        own = {"External id": self.external, "correlation": self.correlation}
        return self.host(cat, name, ts, dur, args=own | (args or {}), tid=tid)

    def launch(
        self, ts: int, dur: int, *, name: str = "cudaLaunchKernel", **more: Any
    ) -> TraceBuilder:
        self.call(name, ts, dur, **more)
        call = self.events[-1]
        self.events.append(
            flow("s", self.correlation, call["pid"], call["tid"], self.origin_ns + ts)
        )
        return self

    def graph_launch(self, ts: int, dur: int, **more: Any) -> TraceBuilder:
        return self.launch(ts, dur, name="cudaGraphLaunch", **more)

    def sync(
        self, ts: int, dur: int, *, name: str = "cudaDeviceSynchronize", **more: Any
    ) -> TraceBuilder:
        return self.call(name, ts, dur, **more)

    def frame(self, name: str, ts: int, dur: int, **more: Any) -> TraceBuilder:
        """A Python frame, as `with_stack` records it."""
        return self.host(
            "python_function", name, ts, dur, args={"Python id": len(self.events) + 1}, **more
        )

    # ---- GPU

    def gpu(
        self,
        cat: str,
        name: str,
        ts: int,
        dur: int,
        *,
        device: int | None = None,
        stream: int | None = None,
        correlation: int | None = None,
        args: Event | None = None,
    ) -> TraceBuilder:
        """Any GPU operation."""
        device = self.device if device is None else device
        stream = self.stream if stream is None else stream
        correlation = self.correlation if correlation is None else correlation
        own = {
            "External id": self.external,
            "device": device,
            "context": 1,
            "stream": stream,
            "correlation": correlation,
        }
        self.events.append(
            complete(cat, name, device, stream, self.origin_ns + ts, dur, own | (args or {}))
        )
        return self

    def kernel(
        self,
        name: str,
        ts: int,
        dur: int,
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (128, 1, 1),
        args: Event | None = None,
        **more: Any,
    ) -> TraceBuilder:
        shape = {"grid": list(grid), "block": list(block)}
        return self.gpu("kernel", name, ts, dur, args=shape | (args or {}), **more)

    def memcpy(
        self,
        ts: int,
        dur: int,
        *,
        name: str = "Memcpy HtoD (Pageable -> Device)",
        nbytes: int = 4096,
        **more: Any,
    ) -> TraceBuilder:
        return self.gpu("gpu_memcpy", name, ts, dur, args={"bytes": nbytes}, **more)

    def memset(
        self, ts: int, dur: int, *, name: str = "Memset (Device)", nbytes: int = 4096, **more: Any
    ) -> TraceBuilder:
        return self.gpu("gpu_memset", name, ts, dur, args={"bytes": nbytes}, **more)

    # ---- writing

    def event(self, event: Event) -> TraceBuilder:
        """An event as it stands, for whatever the other methods do not say."""
        self.events.append(event)
        return self

    def doc(self) -> Doc:
        last = max(
            (
                float(event["ts"]) + float(event.get("dur", 0))
                for event in self.events
                if "ts" in event
            ),
            default=0,
        )
        doc = Doc([*self.events, instant("Record Window End", "", "", int(last * 1000) + 1_000)])
        return doc.head(**self.header)

    def bytes(self, layout: str = "pretty") -> bytes:
        return self.doc().bytes(layout)
