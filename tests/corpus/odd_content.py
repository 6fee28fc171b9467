"""Sound JSON with odd content: clocks, ranges, links, streams, arguments, and the shapes of other writers."""

from __future__ import annotations

import copy
import random
from typing import Any

from corpus.build import (
    BASE_NS,
    DEVICE,
    E3,
    E4,
    E5,
    E7,
    E8,
    E9,
    E11,
    Doc,
    Event,
    Raw,
    complete,
    flow,
    g0,
    gn,
    meta,
    us,
)
from corpus.builder import TraceBuilder
from corpus.cases import (
    ANY,
    Case,
    Opened,
    accept,
    gpu_is_t0,
    gpu_time_unknown,
    is_t0,
    reject,
    shows,
)
from corpus.odd_text import op

EPOCH_US = 1_708_722_576_380_804
QUARTER_NS = 7_889_238_000_000_000
HOUR_NS = 3_600 * 10**9


# ---- clocks


def without_base(doc: Doc) -> Doc:
    del doc.header["baseTimeNanoseconds"]
    return doc


def absolute_us(doc: Doc) -> Doc:
    """The oldest era: whole microseconds since the epoch, no base."""
    for event in without_base(doc).events:
        if "ts" in event:
            event["ts"] = EPOCH_US + int(event["ts"].partition(".")[0])
        if "dur" in event:
            event["dur"] = round(float(event["dur"]))
    return doc


def absolute_float(doc: Doc, written: Any = Raw) -> Doc:
    """Nightlies of spring 2024: a double at these times steps by a quarter of a microsecond."""
    for event in without_base(doc).events:
        if "ts" in event:
            whole, _, part = event["ts"].partition(".")
            event["ts"] = written(f"{EPOCH_US + int(whole)}.{part}")
    return doc


def odd_ns() -> Doc:
    """G0 with a launch and a kernel at nanoseconds that no double near 1.7e15 can state."""
    return g0().edit(E5, ts=us(1_150_047)).edit(E7, ts=us(1_200_916))


ODD_NS = shows(kernels={"ts_ns": [(EPOCH_US + 1200) * 1000 + 916], "delay_ns": [50_869]})


def last_of_quarter() -> TraceBuilder:
    """The kernel on the last nanosecond that a relative time can state."""
    builder = TraceBuilder(origin_ns=QUARTER_NS - 100_001).step(2, 0, 100_000)
    return builder.op("mm", 10_000, 80_000).launch(50_001, 1_000).kernel("sgemm", 100_000, 1)


def kernel_at(ts: int) -> Doc:
    return g0().edit(E7, ts=us(ts)).edit(E8, ts=us(ts))


def half_lost(count: int, every: int = 2) -> Doc:
    """`count` launches; the kernels of every second one came without a time."""
    doc = gn(count)
    for i in range(every - 1, count, every):
        doc.edit(E7 + 5 * i, ts=us(0), dur=us(0)).edit(E8 + 5 * i, ts=us(0))
    return doc


def early() -> Doc:
    ops = (
        complete("cpu_op", f"early{i}", 100, 100, 0, 5_000, {"External id": 20 + i}) for i in (0, 1)
    )
    return g0().add(*ops)  # fmt: skip


def moved(offset_ns: int, chosen: slice) -> Doc:
    """80 launches, one every 10 us, whose kernels start 4 us later; some are stamped by another clock."""
    builder = TraceBuilder(origin_ns=2 * HOUR_NS).step(1, 0, 800_000)
    for at in range(0, 800_000, 10_000):
        builder.op("aten::mm", at, 9_000).launch(at + 1_000, 2_000).kernel(
            "sgemm", at + 5_000, 4_000
        )
    doc = builder.doc()
    for kernel in [event for event in doc.events if event.get("cat") == "kernel"][chosen]:
        kernel["ts"] = us(round(float(kernel["ts"]) * 1000) + offset_ns)
    return doc


def set_aside(opened: Opened) -> None:
    """The kernel of the other clock counts and keeps its op; the times are those of the others."""
    assert (opened.totals["kernels"], opened.totals["gpu_busy_ns"]) == (80, 4_000 * 79)
    assert opened.totals["gpu_span_ns"] <= 800_000
    assert {kernel["op_name"] for kernel in opened.kernels} == {"aten::mm"}
    delays = [kernel["delay_ns"] for kernel in opened.kernels]
    assert (delays.count(4_000), delays.count(None)) == (79, 1)
    assert opened.doc["steps"][0]["kernels"] == 80


def own_clock(opened: Opened) -> None:
    """GPU times hold on the GPU's clock; nothing compares them with the host's."""
    assert opened.totals["gpu_busy_ns"] == 320_000
    assert opened.totals["gpu_span_ns"] == 794_000
    assert {kernel["delay_ns"] for kernel in opened.kernels} == {None}
    assert {kernel["op_name"] for kernel in opened.kernels} == {"aten::mm"}
    assert opened.trace.idle.by_cause() == {"unknown": 474_000}
    assert not [row for row in opened.doc["findings"] if (row["at_most_ns"] or 0) > 800_000]
    assert "s apart" in next(n.text for n in opened.ledger.notes if n.code == "clock_mismatch")


def corrected(opened: Opened) -> None:
    """Nothing starts before its launch: the clock is early, and the times are moved."""
    assert opened.totals["gpu_busy_ns"] == 320_000
    assert {kernel["delay_ns"] for kernel in opened.kernels} == {7_000}
    assert "unknown" not in opened.trace.idle.by_cause()
    assert "3,600 s early" in next(n.text for n in opened.ledger.notes if n.code == "clock_offset")


# ---- ranges


def short_kernels(n: int, dur_ns: int, at_ns: int) -> Doc:
    builder = TraceBuilder().step(1, 0, n * 2_000)
    for i in range(n):
        builder.launch(i * 2_000, 100).kernel("tiny", i * 2_000 + at_ns, dur_ns)
    return builder.doc()


def shuffled() -> bytes:
    doc = gn(200)
    random.Random(7).shuffle(doc.events)
    return doc.bytes()


def same_start(longer: int, *names: str) -> Doc:
    """Two ops that start together; the second is `longer`, and begun second."""
    builder = TraceBuilder().step(2, 0, 1_000_000)
    builder.op(names[0], 100_000, 200_000).op(names[1], 100_000, 200_000 + longer)
    return builder.launch(150_000, 10_000).kernel("sgemm", 200_000, 50_000).doc()


def backwards(doc: Doc) -> Doc:
    doc.events.reverse()
    return doc


def memory(ph: str, **args: Any) -> Doc:
    event = complete("cpu_instant_event", "[memory]", 100, 100, 1_101_000, 10_774_627)
    where = {"Device Type": 1, "Device Id": 0, "Addr": 140_000_000_000_000, "Bytes": 512}
    return g0().add(event | {"ph": ph, "args": where | args})


INNER = shows(
    ops={"outer": {"self_cpu_ns": 0}, "inner": {"self_cpu_ns": 190_000}},
    kernels={"op_name": ["inner"]},
)


# ---- links


def with_launch(builder: TraceBuilder | None = None) -> TraceBuilder:
    """A step of 10 ms and an op that holds everything launched below."""
    return (builder or TraceBuilder()).step(2, 0, 10_000_000).op("aten::mm", 10_000, 9_000_000)


def overlap(**second: Any) -> Doc:
    builder = with_launch(TraceBuilder(header=second.pop("header", None)))
    builder.launch(100_000, 5_000).kernel("first", 200_000, 10_000)
    return builder.launch(110_000, 5_000).kernel("second", 207_000, 10_000, **second).doc()


def graph(kernels: int, launch: bool = True) -> Doc:
    """One graph launch with correlation 9 and its kernels, with one arrow half for all of them."""
    builder = with_launch()
    if launch:
        builder.graph_launch(100_000, 20_000, correlation=9)
    for i in range(kernels):
        builder.kernel(f"node{i % 7}", 200_000 + 1_000 * i, 900, correlation=9)
    return builder.event(flow("f", 9, 0, 7, 1_200_000)).doc()


def all_of_the_graph(opened: Opened) -> None:
    assert {kernel["launch"] for kernel in opened.kernels} == {
        opened.named("cudaGraphLaunch")["id"]
    }
    assert opened.doc["steps"][0]["kernels"] == 300


def dropped() -> Doc:
    doc = gn(100)
    for i in (90, 70, 50, 30, 10):
        del doc.events[E7 + 5 * i : E8 + 5 * i + 1]
    return doc


def says_the_share(opened: Opened) -> None:
    note = next(note for note in opened.ledger.banner if note.code == "gpu_events_missing")
    assert "5" in note.text
    assert "%" in note.text


def nccl_without_correlation() -> Doc:
    builder = with_launch().launch(50_000, 5_000, correlation=0, name="hipExtLaunchKernel")
    for i in range(50):
        builder.kernel("ncclDevKernel_Generic", 200_000 + 2_000 * i, 1_000, correlation=0)
    return builder.doc()


def no_correlation(launches: int, key: str = "External id") -> Doc:
    """A kernel without a correlation, and `launches` launches with its External id."""
    doc = g0().drop(E7, "args.correlation")
    for i in range(1, launches):
        ids = {"External id": 2, "correlation": 70 + i}
        call, run = 1_150_000 + 10_000 * i, 1_300_000 + 10_000 * i
        doc.add(complete("cuda_runtime", "cudaLaunchKernel", 100, 100, call, 5_000, ids))
        where = {"device": 0, "stream": 7}
        doc.add(complete("kernel", "other", 0, 7, run, 5_000, ids | where))
    for event in doc.events:
        if "External id" in event.get("args", {}):
            event["args"][key] = event["args"].pop("External id")
    return doc


def two_launches_one_id() -> Doc:
    ids = {"External id": 2, "cbid": 211, "correlation": 7}
    return g0().add(complete("cuda_runtime", "cudaLaunchKernel", 100, 100, 1_180_000, 5_000, ids))


def shared_correlation() -> Doc:
    """ROCm: three kernels with the correlation of one launch, and a launch that has none of its own."""
    builder = with_launch().launch(100_000, 5_000, correlation=5, name="hipLaunchKernel")
    builder.launch(110_000, 5_000, correlation=6, name="hipLaunchKernel")
    for i, stream in enumerate((3, 4, 5)):
        builder.kernel(f"k{stream}", 200_000 + 10_000 * i, 5_000, correlation=5, stream=stream)
    return builder.doc()


def unlinked(count: int) -> Any:
    def run(opened: Opened) -> None:
        kernels = [kernel for kernel in opened.kernels if kernel["launch"] is None]
        assert len(kernels) == count
        assert all(kernel["delay_ns"] is None and kernel["step"] is None for kernel in kernels)

    return run


def two_processes(shift_ns: int, devices: tuple[int, int], externals: tuple[int, int]) -> Doc:
    """Two processes with the same correlation ids, each with an op of its own name."""
    parts = []
    for at, pid in enumerate((100, 200)):
        origin = 1_000_000 + at * shift_ns
        builder = TraceBuilder(
            pid=pid, tid=pid, device=devices[at], stream=7 + at, origin_ns=origin
        )
        builder.external = externals[at]
        builder.step(pid, 0, 100_000)
        for i in range(10):
            builder.op(f"op{pid}", 10_000 * i, 9_000).launch(10_000 * i + 1_000, 2_000)
            builder.kernel(f"kernel{pid}", 10_000 * i + 5_000, 3_000)
        parts += builder.doc().events
    return Doc(parts)


def own_ops(opened: Opened) -> None:
    assert all(kernel["op_name"][2:] == kernel["name"][6:] for kernel in opened.kernels)
    assert [row["kernels"] for row in opened.doc["steps"]] == [10, 10]
    steps = {event["name"]: event["step"] for event in opened.events if event["kind"] == "cpu_op"}
    assert steps == {"op100": 0, "op200": 1}


# ---- streams, processes, devices


def sync(tid: int, **args: Any) -> Event:
    args = {"device": 0, "context": 1, "correlation": 12} | args
    return complete("cuda_sync", "Stream Sync", 0, tid, 1_400_000, 300_000, args)


def on_stream(tid: Any, stream: int | None) -> Doc:
    doc = g0().edit(E7, tid=tid).edit(E8, tid=tid)
    return doc.drop(E7, "args.stream") if stream is None else doc.args(E7, {"stream": stream})


def text_tids() -> Doc:
    doc = on_stream("stream 7", None)
    for event in doc.events:
        if event["tid"] == 100:
            event["tid"] = "3239786240"
    return doc


def merged(ranks: list[int]) -> Doc:
    """What the mergers write: `[TP00-DP01] 83` for a pid, ids that repeat in every rank, the base
    of rank 0 alone.
    """
    events = []
    for rank in ranks:
        for event in copy.deepcopy(g0().events):
            if event["pid"] in (100, 0):
                event["pid"] = f"[TP{rank:02}-DP00] {event['pid']}"
            events.append(event)
    return Doc(events).head(distributedInfo={"backend": "nccl", "rank": 0, "world_size": 8})


def t0_of(ranks: int) -> Any:
    def run(opened: Opened) -> None:
        is_t0(opened, ranks)
        assert len({kernel["launch"] for kernel in opened.kernels}) == ranks
        assert opened.ledger.count("merged_trace") >= 1

    return run


def no_device(opened: Opened) -> None:
    is_t0(opened)
    assert "unknown" in str(opened.doc["trace"]["device"] or "unknown").lower()


A100 = DEVICE | {"id": 1, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "numSms": 108}


def stream(expected: int) -> Any:
    return shows(is_t0, kernels={"stream": [expected]})


# ---- arguments


def rocm_copy(**args: Any) -> TraceBuilder:
    """A copy whose size is text."""
    builder = with_launch().launch(100_000, 5_000).kernel("sgemm", 150_000, 5_000)
    builder.call("hipMemcpyAsync", 300_000, 5_000, args={"size": "4096"})
    given = {"bytes": "4096"} | args
    return builder.gpu("gpu_memcpy", "Memcpy DtoD", 320_000, 2_000, args=given)


ONE_COPY = shows(n_memcpys=1, n_kernels=1, gpu_busy_ns=7_000)


def deep_stack(depth: int) -> Doc:
    return g0().add(
        *(
            complete("python_function", "f", 100, 100, 2_000_000 + i, 4 * depth - 2 * i)
            for i in range(depth)
        )
    )


def is_deep(opened: Opened) -> None:
    assert max(event["depth"] or 0 for event in opened.events) == 2_999


COMMS = ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "rcclGenericKernel",
         "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long)", "hccl::AllReduce",
         "oneccl_allreduce_kernel")  # fmt: skip


def comms_kernels() -> TraceBuilder:
    builder = with_launch()
    for i, name in enumerate(COMMS):
        builder.launch(100_000 + 10_000 * i, 5_000).kernel(name, 200_000 + 10_000 * i, 5_000)
    return builder


def all_comms(opened: Opened) -> None:
    roles = {row["name"]: row["role"] for row in opened.doc["kernels"]}
    assert roles == dict.fromkeys(COMMS, "comms")
    assert {row["gbps"] for row in opened.doc["kernels"]} == {None}  # no size was written


# ---- other writers and versions


def torch18() -> Doc:
    """torch 1.8: other category names, ids as text, `Input dims`, `external id`, whole microseconds
    since the epoch.
    """
    doc = absolute_us(g0())
    cats = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel", "ac2g": "async",
            "user_annotation": "Operator"}  # fmt: skip
    keys = {"Input Dims": "Input dims", "External id": "external id"}
    for event in doc.events:
        if "cat" in event:
            event["cat"] = cats.get(event["cat"], event["cat"])
        if isinstance(event["tid"], int):
            event["tid"] = f"stream {event['tid']}" if event["pid"] == 0 else str(event["tid"])
        if "args" in event:
            event["args"] = {keys.get(key, key): value for key, value in event["args"].items()}
    del doc.events[E9]  # GPU ranges came later
    doc.header = {"schemaVersion": 1, "deviceProperties": doc.header["deviceProperties"]}
    return doc


def minimal() -> Doc:
    doc = absolute_us(g0())
    doc.header, doc.tail = {}, {}
    return doc


def legacy() -> bytes:
    """`EventList.export_chrome_trace` of the old autograd profiler: a list, no categories, pids in
    words.
    """
    names = (("aten::linear", "0.5", "100.25"), ("aten::addmm", "10.125", "50"))
    where = {"tid": 1, "pid": "CPU functions", "args": {}}
    events = [
        {"name": name, "ph": "X", "ts": Raw(ts), "dur": Raw(dur)} | where for name, ts, dur in names
    ]
    return Doc(events).bytes("list")


def only(doc: Doc, *phases: str) -> Doc:
    doc.events = [event for event in doc.events if event["ph"] in phases]
    return doc


def gpu_only() -> Doc:
    doc = gn(4)
    doc.events = [event for event in doc.events if event.get("cat", "kernel") == "kernel"]
    return doc


def no_steps() -> Doc:
    doc = g0()
    del doc.events[E9], doc.events[E3]
    return doc


def steps(*indices: int) -> TraceBuilder:
    builder = TraceBuilder()
    for at, index in enumerate(indices):
        start = 1_000_000 * at
        builder.step(index, start, 900_000).op("aten::mm", start + 100_000, 200_000)
        builder.launch(start + 150_000, 10_000).kernel("sgemm", start + 200_000, 50_000)
    return builder


def of_categories(*cats: str) -> Doc:
    return g0().add(
        *(
            complete(cat, cat, 0, 9, 1_400_000 + 10_000 * i, 5_000, {"device": 0})
            for i, cat in enumerate(cats)
        )
    )


def phase(ph: Any, name: str, ts: int) -> Event:
    return {"ph": ph, "cat": "cpu_op", "name": name, "pid": 100, "tid": 101, "ts": us(ts)}


def phases() -> Doc:
    times = zip(
        "BBEE", ("outer", "inner", "inner", "outer"), (0, 10_000, 20_000, 50_000), strict=True
    )
    pairs = [phase(ph, name, 1_400_000 + at) for ph, name, at in times]
    others = [phase(ph, "odd", 1_500_000 + i) for i, ph in enumerate(("Q", "b", "N", "XX", ""))]
    missing = phase("X", "c", 1_520_000)
    del missing["ph"]
    return g0().add(*pairs, *others, missing)


def rank(expected: int | None) -> Any:
    def run(opened: Opened) -> None:
        is_t0(opened)
        assert opened.doc["trace"]["rank"] == expected

    return run


def no_rank(opened: Opened) -> None:
    assert opened.doc["trace"]["rank"] is None


def unknown_category(opened: Opened) -> None:
    is_t0(opened)
    assert opened.ledger.count("unknown_category") >= 1


def info(**about: Any) -> Doc:
    return g0().head(distributedInfo={"backend": "nccl"} | about)


def info_last() -> Doc:
    """On-demand recording writes the block after the events."""
    doc = g0()
    doc.tail["distributedInfo"] = {"backend": "nccl", "rank": 5, "world_size": 8}
    return doc


def bare(name: str, pid: Any, tid: Any, ts: int, dur: int) -> Event:
    return complete(None, name, pid, tid, ts, dur)


def process(pid: Any, name: str, *threads: tuple[Any, str]) -> list[Event]:
    rows = [meta("thread_name", pid, tid, {"name": name}) for tid, name in threads]
    return [meta("process_name", pid, 0, {"name": name}), *rows]


def jax() -> Doc:
    """JAX: no categories; a device's streams, and rows that group their kernels."""
    threads = ((20, "Stream #20(Compute,MemcpyH2D)"), (90, "XLA Ops"), (91, "XLA Modules"))
    return Doc(
        [
            *process(1, "/device:GPU:0", *threads),
            *process(701, "/host:CPU", (5, "python")),
            bare("PjitFunction(step)", 701, 5, 1_000_000, 500_000),
            bare("gemm_fusion_dot_1", 1, 20, 1_200_000, 50_000),
            bare("MemcpyH2D", 1, 20, 1_260_000, 10_000),
            bare("dot.1", 1, 90, 1_200_000, 50_000),
            bare("jit_step", 1, 91, 1_200_000, 70_000),
        ]
    )


def ascend() -> Doc:
    """torch_npu: ops have a category, rows of CANN, streams and the overlap of both have none."""
    return Doc(
        [
            *process(7, "Python"),
            *process(8, "CANN"),
            *process(9, "Ascend Hardware", (2, "Stream 2")),
            *process(10, "Overlap Analysis", (0, "Computing"), (1, "Free")),
            complete("cpu_op", "aten::mm", 7, 7, 1_000_000, 50_000, {}),
            bare("AscendCL@aclnnMatmul", 8, 7, 1_010_000, 9_000),
            bare("MatMulV2", 9, 2, 1_040_000, 30_000),
            bare("Computing", 10, 0, 1_040_000, 30_000),
        ]
    )


NO_TIME = "dur_missing ts_missing ts_out_of_window ts_type"
KERNEL_GONE = shows(n_kernels=1, gpu_busy_ns=None)
BARE_OP = shows(gpu_is_t0, ops={"odd": {"count": 1, "total_cpu_ns": 0, "self_cpu_ns": 0}})
OTHER: dict[str, Any] = {"compared": False}

CASES = [
    # clocks
    Case("C02 float_us_absolute", absolute_float(odd_ns()), accept(may="ts_precision"), ODD_NS),
    Case("C03 relative_no_base", without_base(g0()), accept(base_missing=1),
         shows(is_t0, kernels={"ts_ns": [1_200_000]})),
    Case("C06 last_ns_of_quarter", last_of_quarter().doc(), accept(),
         shows(kernels={"ts_ns": [BASE_NS + QUARTER_NS - 1], "delay_ns": [49_999]}, gpu_busy_ns=1)),
    Case("C08 ts_string_bad", op("odd", ts="12x"), accept(ts_missing=1), BARE_OP),
    Case("C09 ts_missing", g0().drop(E7, "ts"), accept(ts_missing=1), gpu_time_unknown),
    # without a length, aten::mm is no range that can hold the launch
    Case("C11 dur_negative", g0().edit(E7, dur=us(-5_000)), accept(dur_negative=1),
         gpu_time_unknown),
    Case("C13 gpu_ts_zero", half_lost(20), accept(gpu_no_timestamp=10),
         shows(n_kernels=20, gpu_busy_ns=500_000, gpu_span_ns=300_000 * 18 + 50_000)),
    Case("C14 all_ts_zero", half_lost(3, 1), accept(gpu_no_timestamp=3), gpu_time_unknown),
    Case("C15 record_window_end_far", g0().edit(E11, ts=us(10 * 365 * 24 * HOUR_NS)), accept()),
    Case("C16 clamped_at_base", early(), accept(ts_out_of_window=2),
         shows(gpu_is_t0, cpu_ops=3, ops={"early0": {"total_cpu_ns": 0}})),
    Case("C18 kernel_before_launch", kernel_at(1_149_000), accept(kernel_before_launch=1),
         shows(kernels={"delay_ns": [None]}, gpu_busy_ns=50_000, n_launches=1)),
    Case("N01 one_other_epoch", moved(BASE_NS, slice(40, 41)), accept(time_outlier=1), set_aside,
         **OTHER),
    Case("N03 hour_late", moved(HOUR_NS, slice(None)), accept(clock_mismatch=1), own_clock, **OTHER),
    Case("N04 hour_early", moved(-HOUR_NS, slice(None)), accept(clock_offset=1), corrected, **OTHER),
    Case("N08 dur_282_years", g0().edit(E7, dur=Raw("8.9e15")), accept(ts_out_of_window=1),
         KERNEL_GONE, **OTHER),
    *(
        Case(f"N43-{at} odd_duration", g0().edit(E7, dur=Raw(dur)), accept(may=NO_TIME), KERNEL_GONE,
             **OTHER)
        for at, dur in enumerate(("1e9999999", '"sNaN"', "1e99999999999999999999", '"٣"'))
    ),
    # ranges
    Case("C20 clock_drift_rocm",
         TraceBuilder().step(2, 0, 1_000_000).op("aten::linear", 90_000, 310_000)
         .op("aten::mm", 100_000, 100_000).launch(195_000, 10_000, name="hipLaunchKernel")
         .kernel("Cijk_gemm", 250_000, 50_000).doc(),
         accept(cpu_crossing=ANY), shows(kernels={"op_name": ["aten::mm"]}, steps={"kernels": [1]})),
    Case("C24 sum_precision", lambda: short_kernels(1_000, 1, 1_003).bytes("minified"), accept(),
         shows(n_kernels=1_000, gpu_busy_ns=1_000)),
    Case("C25 unsorted", shuffled, accept(), None, same_as=lambda: gn(200).bytes()),
    Case("C26-equal equal_ranges", same_start(0, "outer", "inner"), accept(), INNER),
    Case("C26-back equal_ranges_backwards", backwards(same_start(0, "outer", "inner")), accept(), INNER),
    Case("C28 memory_as_X", memory("X"), accept(),
         shows(is_t0, ops={"aten::mm": {"total_cpu_ns": 200_000, "self_cpu_ns": 190_000}})),
    # links
    Case("D01 pdl_overlap", overlap(), accept(stream_overlap=1),
         shows(n_kernels=2, gpu_busy_ns=17_000, kernels={"dur_ns": [10_000] * 2})),
    Case("D02 graph_one_to_many", graph(300), accept(),
         shows(all_of_the_graph, n_launches=1, gpu_busy_ns=270_000, notes={"graph_launch": 1})),
    Case("D03 graph_launch_outside", graph(5, launch=False), accept(kernel_unlinked=5), unlinked(5)),
    Case("D06 launch_no_kernel", dropped(), accept(gpu_events_missing=5),
         shows(says_the_share, n_launches=100, n_kernels=95)),
    Case("D07 corr_zero_all_nccl", nccl_without_correlation(),
         accept(corr_zero=50, may="kernel_unlinked gpu_events_missing"), unlinked(50)),
    Case("D08 corr_missing_unique", no_correlation(1, "External Id"), accept()),
    # the nearest launch before the kernel: the one at 1180 us, 20 us earlier
    Case("D09 corr_duplicate_rt", two_launches_one_id(),
         accept(corr_duplicate=1, may="gpu_events_missing"),
         shows(kernels={"delay_ns": [20_000]}, n_launches=2)),
    Case("D17 flow_id_clash", g0().add(flow("s", 7, 100, 100, 1_100_000, "fwdbwd"),
                                       flow("f", 7, 100, 101, 1_500_000, "fwdbwd")), accept()),
    Case("D19 rocm_shared_corr", shared_correlation(),
         accept(corr_duplicate=ANY, may="gpu_events_missing"), shows(kernels={"stream": [3, 4, 5]})),
    Case("N21 two_processes_external", two_processes(500, (0, 0), (0, 500)),
         accept(may="stream_overlap"), own_ops, **OTHER),
    # streams, processes, devices
    Case("D21 stream_minus1_tid1", on_stream(1, 1).add(sync(1, stream=-1)), accept(), stream(1)),
    Case("D23 tid_64bit", on_stream(2**56 + 1, 2**56 + 1), accept(), stream(2**56 + 1)),
    Case("D24 tid_string", text_tids(), accept(may="arg_type"), stream(7)),
    Case("D27 merged", merged(list(range(8))), accept(), t0_of(8)),
    Case("D28 merged_missing_rank", merged([0, 1, 2, 4, 5, 6, 7]), accept(rank_missing=1), t0_of(7)),
    Case("D31 device_prop_empty", g0().head(deviceProperties=[]), accept(), no_device),
    # arguments
    Case("D34 nested_shapes", g0().args(E4, {"Input Dims": [[2, 3], [], [[4, 5], [6]]]}), accept()),
    Case("D37 bytes_string", rocm_copy().doc(), accept(arg_type=ANY), ONE_COPY),
    *(
        Case(f"D39-{at} args", g0().edit(E4, args=value), accept(may="arg_type"))
        for at, value in enumerate((None, 1.5, [], "x"))
    ),
    Case("D42 deep_stack", lambda: deep_stack(3_000).bytes("minified"), accept(),
         shows(is_t0, is_deep)),
    Case("D46 comm_kernels", comms_kernels().doc(), accept(), all_comms),
    # writers and versions
    Case("E01 torch18", torch18(), accept(ts_precision=ANY)),
    Case("E03 header_minimal", minimal(), accept(ts_precision=ANY)),
    Case("E05 legacy_no_cat", legacy(),
         accept(no_gpu_events=1, legacy_format=1, may="no_steps base_missing"),
         shows(cpu_ops=2, n_kernels=0,
               ops={"aten::linear": {"total_cpu_ns": 100_250, "self_cpu_ns": 50_250}})),
    Case("E06 events_object", b'{"traceEvents": {"0": {"ph": "X", "name": "a", "ts": 1}}}',
         reject("E_NO_EVENTS")),
    Case("E07 events_empty", Doc([]), reject("E_NO_EVENTS", "without a trace event")),
    Case("E08 metadata_only", only(g0(), "M"),
         accept(no_complete_events=1, may="no_gpu_events no_steps"), shows(n_kernels=0)),
    Case("E10 gpu_only", gpu_only(), accept(kernel_unlinked=4, no_steps=1),
         shows(n_kernels=4, gpu_busy_ns=200_000)),
    Case("E11 no_steps", no_steps(), accept(no_steps=1), gpu_is_t0),
    Case("E12 steps_gap_dup", steps(3, 3, 4, 6).doc(), accept(step_repeated=1),
         shows(steps={"index": [3, 3, 4, 6], "kernels": [1, 1, 1, 1]})),
    Case("E15 unknown_category", of_categories("tpu_op", "xpu_sync", "hpu_op"), accept(),
         unknown_category),
    Case("E16 phases", phases(), accept(),
         shows(cpu_ops=3, notes={"unknown_phase": 6},
               ops={"outer": {"count": 1, "total_cpu_ns": 50_000, "self_cpu_ns": 40_000},
                    "inner": {"count": 1, "total_cpu_ns": 10_000}})),
    Case("E20 name_missing", g0().drop(E7, "name"), accept(name_missing=1),
         shows(is_t0, kernels={"name": ["(no name)"]})),
    Case("E28 rank_text", info(rank="3", world_size="8"), accept(may="arg_type"), rank(3)),
    Case("E28-late rank_after_events", info_last(), accept(), rank(5)),
    Case("E31 vllm_coordinator", TraceBuilder().op("async_llm.generate", 0, 1_000_000).doc(),
         accept(no_gpu_events=1, no_steps=1), no_rank,
         file="node7_12.async_llm.1790857026.pt.trace.json"),
    Case("N30 jax", jax(), accept(kernel_unlinked=2, no_steps=1),
         shows(n_kernels=1, n_memcpys=1, cpu_ops=1, gpu_busy_ns=60_000), **OTHER),
    Case("N31 ascend", ascend(), accept(no_gpu_events=1, no_steps=1), shows(cpu_ops=1, n_kernels=0),
         **OTHER),
]  # fmt: skip
