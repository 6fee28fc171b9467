"""Traces of any size that are extreme in one way: each function takes a size and gives a trace.

The size is about the number of events. `SHAPES` has them all by name. Where names are many they hold
the size too: a name that was decoded once costs nothing the second time.
"""

from __future__ import annotations

from collections.abc import Callable

from corpus.build import meta
from corpus.builder import TraceBuilder

SHAPES: dict[str, Callable[[int], TraceBuilder]] = {}
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"


def shape(make: Callable[[int], TraceBuilder]) -> Callable[[int], TraceBuilder]:
    SHAPES[make.__name__] = make
    return make


def launches(
    trace: TraceBuilder, count: int, kernel: str = GELU, op: str = "aten::gelu", start: int = 0
) -> TraceBuilder:
    """`count` ops in a row, each with a launch and its kernel: a sound trace."""
    for at in range(start, start + 10 * count, 10):
        trace.op(op, at, 9, dims=[[8, 8]], types=["float"])
        trace.launch(at + 1, 2).kernel(kernel, at + 4, 4)
    return trace


@shape
def sound(n: int) -> TraceBuilder:
    return launches(TraceBuilder().step(1, 0, 10 * n), n // 3)


@shape
def identical(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for _ in range(n):
        trace.op("aten::add", 100, 50)
    return trace


@shape
def equal_times(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 100)
    for at in range(n // 3):
        trace.op(f"aten::add{n}_{at}", 10, 50).launch(10, 50).kernel(GELU, 10, 50)
    return trace


@shape
def zero_length(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        trace.op("aten::add", at, 0).launch(at, 0).kernel(GELU, at, 0)
    return trace


@shape
def threads(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        trace.tid = 100 + at
        launches(trace, 1, start=10 * at)
    return trace


@shape
def crossing(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n):
        trace.op("aten::add", 10 * at, 20 * n)
    return trace


@shape
def crossing_threads(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 2):
        trace.op("aten::add", 100, 100, tid=at).op("aten::mul", 150, 100, tid=at)
    return trace


@shape
def crossing_under_one(n: int) -> TraceBuilder:
    """Short ranges that have ended lie under one that has not."""
    trace = TraceBuilder()
    for at in range(n // 2):
        trace.op("aten::add", at, 10 * n - at).op("aten::mul", 20 * n + 10 * at, 15)
    return trace.op("aten::long", n, 40 * n)


@shape
def deep(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n):
        trace.op("aten::add", at, 4 * n - 2 * at)
    return trace.launch(n, 3).kernel(GELU, n + 10, 5)


@shape
def deep_with_launches(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 3):
        trace.op("aten::add", 4 * at, 8 * n - 8 * at).launch(4 * at + 1, 2)
        trace.kernel(GELU, 8 * n + 4 * at, 3)
    return trace


@shape
def wide(n: int) -> TraceBuilder:
    return launches(TraceBuilder().op("aten::all", 0, 10 * n), n // 3)


@shape
def tracks(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 2):
        trace.event(meta("process_name", 1000 + at, 0, {"name": "python"}))
        trace.event(meta("thread_name", 100, 1000 + at, {"name": "worker"}))
    return launches(trace, 1)


@shape
def kernel_names(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        launches(trace, 1, f"my_kernel_{n}_{at}", start=10 * at)
    return trace


@shape
def alike_names(n: int) -> TraceBuilder:
    """Names that differ in one number and have the same short form."""
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        launches(trace, 1, f"ns{n}::scan<float, {at}>(int)", start=10 * at)
    return trace


@shape
def gemm_names(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        name = GEMM.replace("128x128x64", f"{at}x{n}x64")
        launches(trace, 1, name, "aten::mm", start=10 * at)
    return trace


@shape
def op_names(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        launches(trace, 1, op=f"my::op_{n}_{at}", start=10 * at)
    return trace


@shape
def op_paths(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 4):
        trace.op(f"my::outer_{n}_{at % 97}", 10 * at, 10)
        launches(trace, 1, op=f"my::op_{n}_{at % 89}", start=10 * at)
    return trace


@shape
def streams(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        trace.stream = at
        launches(trace, 1, start=10 * at)
    return trace


@shape
def devices(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        trace.device = at
        launches(trace, 1, start=10 * at)
    return trace


@shape
def ranks(n: int) -> TraceBuilder:
    """A merged file: each rank has its own prefix."""
    trace = TraceBuilder()
    for at in range(n // 3):
        trace.pid = f"[TP{at}] 7"  # type: ignore[assignment]
        launches(trace, 1, start=10 * at)
        trace.events[-1]["pid"] = f"[TP{at}] 0"
    return trace


@shape
def steps(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 4):
        launches(trace.step(at, 10 * at, 10), 1, start=10 * at)
    return trace


@shape
def overlapping_steps(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 4):
        trace.step(at, 10 * at, 10 * n)
        launches(trace, 1, start=10 * at)
    return trace


@shape
def long_step_over_short(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(0, 0, 40 * n)
    for at in range(n // 4):
        trace.step(at + 1, at, 1)
    return launches(trace, n // 4, start=10 * n)


@shape
def regions(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 4):
        launches(trace.region(f"block_{at}", 10 * at, 10), 1, start=10 * at)
    return trace


@shape
def calls_of_one_region(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 4):
        launches(trace.region("block", 10 * at, 10), 1, start=10 * at)
    return trace


@shape
def nested_regions(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 40 * n)
    for at in range(n // 4):
        trace.region(f"block_{at}", at, 30 * n - 2 * at)
    return launches(trace, n // 4, start=n)


@shape
def nested_calls(n: int) -> TraceBuilder:
    """A region that contains itself."""
    trace = TraceBuilder().step(1, 0, 40 * n)
    for at in range(n // 4):
        trace.region("block", at, 30 * n - 2 * at)
    return launches(trace, n // 4, start=n)


@shape
def regions_in_steps(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 5):
        trace.step(at, 10 * at, 10).region(f"block_{at % 7}", 10 * at, 10)
        launches(trace, 1, start=10 * at)
    return trace


@shape
def input_shapes(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        dims = [[8, at + 1], [at + 1, 8]]
        trace.op("aten::mm", 10 * at, 9, dims=dims, types=["float", "float"])
        trace.launch(10 * at + 1, 2).kernel(GEMM, 10 * at + 4, 4)
    return trace


@shape
def graphs(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 4):
        trace.graph_launch(10 * at, 5)
        for after in (1, 5):
            trace.kernel(GELU, 10 * at + after, 3, args={"graph id": at, "graph node id": after})
    return trace


@shape
def one_graph(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n).graph_launch(0, 5)
    for at in range(n):
        trace.kernel(GELU, 10 * at, 9, args={"graph id": 1, "graph node id": at})
    return trace


@shape
def captures(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 3):
        trace.call("cudaStreamBeginCapture", 30 * at, 5).launch(30 * at + 6, 5)
        trace.call("cudaStreamEndCapture", 30 * at + 12, 5)
    return launches(trace, 2, start=30 * n)


@shape
def one_correlation(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 2):
        trace.launch(10 * at, 5, correlation=7).kernel(GELU, 10 * at + 6, 3)
    return trace


@shape
def external_ids(n: int) -> TraceBuilder:
    """Kernels that only an External id links."""
    trace = TraceBuilder().step(1, 0, 10 * n)
    launches(trace, n // 3)
    for event in trace.events:
        event.get("args", {}).pop("correlation", None)
    return trace


@shape
def unlinked(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n).launch(1, 1)
    for at in range(n):
        trace.kernel(GELU, 10 * at, 9, correlation=10_000_000 + at)
    return trace


@shape
def kernels_of_one_op(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    trace.op("aten::mm", 0, 10 * n, dims=[[8, 8], [8, 8]], types=["float", "float"])
    for at in range(n // 2):
        trace.launch(10 * at, 3).kernel(GEMM, 10 * at + 4, 5)
    return trace


@shape
def memory(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n):
        args = {"Addr": at, "Bytes": 64, "Total Allocated": at, "Device Type": 1, "Device Id": 0}
        event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t"}
        trace.event(event | {"pid": 100, "tid": 100, "ts": 1000 + at, "args": args})
    return launches(trace, 1)


@shape
def python_frames(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 4):
        trace.frame(f"model.py({at}): forward", 10 * at, 10)
        launches(trace, 1, start=10 * at)
    return trace


@shape
def deep_frames(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 4):
        trace.frame(f"model.py({at}): forward", at, 40 * n - 2 * at)
    return launches(trace, n // 4, start=n)


@shape
def modules(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 4):
        trace.frame(f"nn.Module: Linear_{at}", 10 * at, 10)
        launches(trace, 1, start=10 * at)
    return trace


@shape
def nested_modules(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 4):
        trace.frame(f"nn.Module: Block_{at}", at, 40 * n - 2 * at)
    return launches(trace, n // 4, start=n)


@shape
def stacks(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n // 3):
        lines = ";".join(f"model.py({at + line}): forward" for line in range(3))
        trace.op("aten::gelu", 10 * at, 9, args={"Call stack": lines})
        trace.launch(10 * at + 1, 2).kernel(GELU, 10 * at + 4, 4)
    return trace


@shape
def collectives(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n)
    for at in range(n // 3):
        args = {"Collective name": "allreduce", "In msg nelems": at, "Group size": 8, "Seq": at}
        trace.op("c10d::allreduce_", 10 * at, 9).launch(10 * at + 1, 2)
        name = f"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<{at % 99}>)"
        trace.kernel(name, 10 * at + 4, 4, args=args, stream=20 + at % 5)
    return trace


@shape
def process_groups(n: int) -> TraceBuilder:
    """Each collective in a group of its own."""
    trace = collectives(n)
    for at, event in enumerate(event for event in trace.events if "Seq" in event.get("args", {})):
        event["args"] |= {"Process Group Name": f"{at}", "Process Group Ranks": "[0, 1]"}
    return trace


@shape
def waits(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 20 * n)
    for at in range(n // 4):
        launches(trace, 1, start=20 * at).sync(20 * at + 10, 8)
    return trace


@shape
def copies(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 20 * n)
    for at in range(n // 4):
        trace.op("aten::copy_", 20 * at, 19, dims=[[8], [8]], types=["float", "float"])
        trace.call("cudaMemcpyAsync", 20 * at + 1, 3).memcpy(20 * at + 5, 4, nbytes=at)
        trace.memset(20 * at + 10, 4)
    return trace


@shape
def counters(n: int) -> TraceBuilder:
    trace = TraceBuilder()
    for at in range(n):
        event = {"ph": "C", "name": f"counter {at % 50}", "pid": 100, "tid": 100, "ts": 1000 + at}
        trace.event(event | {"args": {"value": at}})
    return launches(trace, 1)


@shape
def alternating(n: int) -> TraceBuilder:
    """The ops of a norm over and over: groups are found by patterns over a sequence of ops."""
    trace = TraceBuilder().step(1, 0, 10 * n)
    ops = ("pow", "mean", "add", "rsqrt", "mul", "mul", "silu", "mul", "neg", "cat")
    for at in range(n // 3):
        launches(trace, 1, op=f"aten::{ops[at % len(ops)]}", start=10 * at)
    return trace


@shape
def optimizer(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 10 * n).region("Optimizer.step#AdamW.step", 0, 10 * n)
    ops = ("mul_", "lerp_", "addcmul_", "sqrt", "div", "add_", "addcdiv_")
    for at in range(n // 3):
        launches(trace, 1, op=f"aten::{ops[at % len(ops)]}", start=10 * at)
    return trace


@shape
def crowd(n: int) -> TraceBuilder:
    """Each launch in a step, a region, a thread, a stream, a module and with names of its own."""
    trace = TraceBuilder()
    for at in range(n // 6):
        trace.tid, trace.stream = 100 + at, 7 + at
        trace.step(at, 10 * at, 10).region(f"block_{n}_{at}", 10 * at, 10)
        trace.frame(f"nn.Module: Linear_{at}", 10 * at, 10)
        launches(trace, 1, f"my_kernel_{n}_{at}", f"my::op_{n}_{at}", start=10 * at)
    return trace


@shape
def everything(n: int) -> TraceBuilder:
    trace = TraceBuilder().step(1, 0, 100 * n)
    some = [*SHAPES.values()][:-1:4]
    for number, make in enumerate(some):
        part = make(n // len(some))
        for event in part.events:
            if isinstance(event.get("tid"), int) and event.get("cat") != "kernel":
                event["tid"] += 1000 * number
        trace.events += part.events
    return trace
