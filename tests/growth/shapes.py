"""Traces, files and logs of any size that are extreme in one way: each function takes a size, which is
about the number of events. Where names are many they hold the size too: a name that was decoded once
costs nothing the second time.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from corpus.build import g0, gz
from corpus.builder import TraceBuilder
from read.compiler.written import message, record

TRACES: dict[str, Callable[[int], bytes]] = {}
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)"


def launch(trace: TraceBuilder, start: int, kernel: str = GELU, op: str = "aten::gelu") -> None:
    trace.op(op, start, 9, dims=[[8, 8]], types=["float"])
    trace.launch(start + 1, 2).kernel(kernel, start + 4, 4)


def repeated(add: Callable[[TraceBuilder, int, int], object]) -> Callable[[int], bytes]:
    """The trace in which `add(trace, at, n)` is called for a fourth of the numbers below n."""

    def made(n: int) -> bytes:
        trace = TraceBuilder().step(0, 0, 100 * n)
        for at in range(n // 4):
            add(trace, at, n)
        launch(trace, 100 * n)
        return trace.bytes("minified")

    TRACES[add.__name__] = made
    return made


@repeated
def threads(trace: TraceBuilder, at: int, n: int) -> None:
    trace.tid = 100 + at
    launch(trace, 10 * at)


@repeated
def streams(trace: TraceBuilder, at: int, n: int) -> None:
    trace.stream = trace.device = at
    launch(trace, 10 * at)


@repeated
def ranks(trace: TraceBuilder, at: int, n: int) -> None:
    trace.pid = f"[TP{at}] 7"  # type: ignore[assignment]
    launch(trace, 10 * at)
    trace.events[-1]["pid"] = f"[TP{at}] 0"


@repeated
def names(trace: TraceBuilder, at: int, n: int) -> None:
    launch(trace, 10 * at, f"ns{n}::scan<float, {at}>(int)", f"my::op_{n}_{at}")


@repeated
def crossing(trace: TraceBuilder, at: int, n: int) -> None:
    trace.op("aten::add", 10 * at, 20 * n).op("aten::mul", 20 * n + 10 * at, 15)


@repeated
def equal_times(trace: TraceBuilder, at: int, n: int) -> None:
    trace.op("aten::add", 10, 50).launch(10, 50).kernel(GELU, 10, 50)


@repeated
def deep(trace: TraceBuilder, at: int, n: int) -> None:
    trace.op("aten::add", 4 * at, 80 * n - 8 * at).launch(4 * at + 1, 2)
    trace.kernel(GELU, 80 * n + 4 * at, 3)


@repeated
def steps(trace: TraceBuilder, at: int, n: int) -> None:
    trace.step(at + 1, 10 * at, 10 * n)
    launch(trace, 10 * at)


@repeated
def nested_regions(trace: TraceBuilder, at: int, n: int) -> None:
    trace.region(f"block_{at}", at, 30 * n - 2 * at)
    launch(trace, n + 10 * at)


@repeated
def nested_modules(trace: TraceBuilder, at: int, n: int) -> None:
    trace.frame(f"nn.Module: Block_{at}", at, 40 * n - 2 * at)
    launch(trace, n + 10 * at)


@repeated
def graphs(trace: TraceBuilder, at: int, n: int) -> None:
    trace.graph_launch(10 * at, 5)
    for after in (1, 5):
        trace.kernel(GELU, 10 * at + after, 3, args={"graph id": at, "graph node id": after})


@repeated
def one_correlation(trace: TraceBuilder, at: int, n: int) -> None:
    trace.launch(10 * at, 5, correlation=7).kernel(GELU, 10 * at + 6, 3)


@repeated
def unlinked(trace: TraceBuilder, at: int, n: int) -> None:
    trace.kernel(GELU, 10 * at, 9, correlation=10_000_000 + at)


@repeated
def collectives(trace: TraceBuilder, at: int, n: int) -> None:
    args = {"Collective name": "allreduce", "In msg nelems": at, "Group size": 8, "Seq": at}
    args |= {"Process Group Name": f"{at}", "Process Group Ranks": "[0, 1]"}
    trace.op("c10d::allreduce_", 10 * at, 9).launch(10 * at + 1, 2)
    name = f"ncclDevKernel_AllReduce_Sum_f32_RING_LL(Storage<{at % 99}>)"
    trace.kernel(name, 10 * at + 4, 4, args=args, stream=20 + at % 5)


@repeated
def pattern(trace: TraceBuilder, at: int, n: int) -> None:
    """The ops of a norm over and over: groups are found by patterns over a sequence of ops."""
    ops = ("pow", "mean", "add", "rsqrt", "mul", "mul", "silu", "mul", "neg", "cat")
    launch(trace, 10 * at, op=f"aten::{ops[at % len(ops)]}")


@repeated
def crowd(trace: TraceBuilder, at: int, n: int) -> None:
    """Each launch in a step, a region, a thread, a stream, a module and with names of its own."""
    trace.tid, trace.stream = 100 + at, 7 + at
    trace.step(at + 1, 10 * at, 10).region(f"block_{n}_{at}", 10 * at, 10)
    trace.frame(f"nn.Module: Linear_{at}", 10 * at, 10)
    launch(trace, 10 * at, f"my_kernel_{n}_{at}", f"my::op_{n}_{at}")


# ---- files that a reader may go through again and again

EVENT = b'{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":5,"dur":1}'
LIST = b'{"traceEvents":['
ODD: dict[str, Callable[[int], bytes]] = {
    "empty records": lambda n: LIST + b"{}," * n + EVENT + b"]}",
    "no list around them": lambda n: b"{}," * n,
    "an unlisted first key": lambda n: b'{"x":[' + b'{"a":1},' * n + b"{}]," + LIST[1:] + EVENT + b"]}",
    "lines in a broken header": lambda n: b'{"a": @' + b"\n" * n,
    "empty gzip members": lambda n: gz(b"") * n + gz(g0().bytes()),
    "unescaped quotes": lambda n: LIST + b",".join([EVENT.replace(b"::", b'"')] * n) + b"]}",
    "records without an end": lambda n: LIST + b",".join([EVENT[:-5]] * n) + b"]}",
    "records with junk behind them": lambda n: LIST + (EVENT + b"x") * n + b"]}",
    "brackets that never close": lambda n: LIST + b"[" * n,
    "objects that never end": lambda n: LIST + b'{"ph":{' * n,
    "strings that never end": lambda n: b"{" + b'\n"a": "x' * n + b"," + LIST[1:] + b"]}",
}  # fmt: skip

# ---- logs of torch.compile

COMMON = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
STARTED = record({"dynamo_start": {"stack": []}, **COMMON})


def phase(name: str, ph: str) -> bytes:
    event = {"name": name, "ph": ph, "ts": 1000.0, "pid": 100, "args": {"compile_id": "0/0"}}
    return record({"chromium_event": {}, **COMMON}, json.dumps(event))


LOGS: dict[str, Callable[[int], bytes]] = {
    # each phase held the path to it: 60,000 of them took 11.3 GB
    "phases without an end": lambda n: STARTED + phase("compile", "B") * n,
    "compilations": lambda n: b"".join(
        record({"dynamo_start": {"stack": []}, "frame_id": at, "frame_compile_id": 0}) for at in range(n)
    ),
    "refusals": lambda n: STARTED + b"".join(
        message(f"cannot fuse op{at} with op{at + 1}: no shared data") for at in range(n)
    ),
    "other output": lambda n: STARTED + b"loss 0.5\n" * n,
    "quotes": lambda n: STARTED + message("\"  File: a:1 in '''" * n),
}  # fmt: skip
