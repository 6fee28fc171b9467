"""D: what is odd about links, streams, devices and arguments."""

from __future__ import annotations

import copy
from typing import Any

from corpus.build import DEVICE, E4, E5, E6, E7, E8, Doc, Event, complete, flow, g0, gn, meta, tight
from corpus.builder import TraceBuilder
from corpus.cases import ANY, Case, Opened, accept, both, is_t0

GRAPH = 1_566
HANDLE = 94_573_829_104_720_129  # a stream handle that a double cannot hold


def with_launch(builder: TraceBuilder | None = None) -> TraceBuilder:
    """A step of 10 ms and an op that holds everything launched below."""
    return (builder or TraceBuilder()).step(2, 0, 10_000_000).op("aten::mm", 10_000, 9_000_000)


def pdl_overlap() -> Doc:
    return (
        with_launch()
        .launch(100_000, 5_000)
        .kernel("first", 200_000, 10_000)
        .launch(110_000, 5_000)
        .kernel("second", 207_000, 10_000)
    ).doc()


def d01_union(opened: Opened) -> None:
    assert opened.totals["kernels"] == 2
    assert opened.totals["gpu_busy_ns"] == 17_000
    assert sum(row["total_ns"] for row in opened.doc["kernels"]) == 20_000


def graph(kernels: int, launch: bool = True) -> Doc:
    """One graph launch with correlation 9 and all its kernels, with one arrow half for all of them."""
    builder = with_launch()
    if launch:
        builder.graph_launch(100_000, 20_000, correlation=9)
    for i in range(kernels):
        builder.kernel(f"node{i % 7}", 200_000 + 1_000 * i, 900, correlation=9)
    return builder.event(flow("f", 9, 0, 7, 1_200_000)).doc()


def d02_links(opened: Opened) -> None:
    kernels = opened.kernels
    assert len(kernels) == opened.doc["steps"][0]["kernels"] == GRAPH
    assert opened.totals["launches"] == 1
    assert {kernel["launch"] for kernel in kernels} == {opened.named("cudaGraphLaunch")["id"]}
    assert opened.ledger.count("graph_launch") == 1
    assert opened.totals["gpu_busy_ns"] == 900 * GRAPH


def unlinked(count: int) -> Any:
    def run(opened: Opened) -> None:
        kernels = [kernel for kernel in opened.kernels if kernel["launch"] is None]
        assert len(kernels) == count
        assert all(kernel["delay_ns"] is None and kernel["step"] is None for kernel in kernels)

    return run


def d04_numbers(opened: Opened) -> None:
    # The device ran the loop body more often than it reported: what was reported is all that can be
    # said.
    assert opened.totals["kernels"] == 3
    assert opened.ledger.count("gpu_events_missing") == 0


def dropped() -> Doc:
    doc = gn(100)
    for i in (90, 70, 50, 30, 10):
        del doc.events[E7 + 5 * i : E8 + 5 * i + 1]
    return doc


def d06_share(opened: Opened) -> None:
    assert (opened.totals["launches"], opened.totals["kernels"]) == (100, 95)
    note = next(note for note in opened.ledger.notes if note.code == "gpu_events_missing")
    assert "5" in note.text
    assert "%" in note.text
    assert note in opened.ledger.banner


def nccl_without_correlation() -> Doc:
    builder = with_launch().launch(50_000, 5_000, correlation=0, name="hipExtLaunchKernel")
    for i in range(50):
        builder.kernel("ncclDevKernel_Generic", 200_000 + 2_000 * i, 1_000, correlation=0)
    return builder.doc()


def no_correlation(launches: int, key: str = "External id") -> Doc:
    """A kernel without a correlation, and `launches` launches with its External id."""
    doc = g0().drop(E7, "args.correlation")
    for i in range(1, launches):
        doc.add(
            complete(
                "cuda_runtime",
                "cudaLaunchKernel",
                100,
                100,
                1_150_000 + 10_000 * i,
                5_000,
                {"External id": 2, "correlation": 70 + i},
            )
        )
        doc.add(
            complete(
                "kernel",
                "other",
                0,
                7,
                1_300_000 + 10_000 * i,
                5_000,
                {"External id": 2, "device": 0, "stream": 7, "correlation": 70 + i},
            )
        )
    for event in doc.events:
        if "External id" in event.get("args", {}):
            event["args"] = {
                key if name == "External id" else name: value
                for name, value in event["args"].items()
            }
    return doc


def two_launches_one_id() -> Doc:
    return g0().add(
        complete(
            "cuda_runtime",
            "cudaLaunchKernel",
            100,
            100,
            1_180_000,
            5_000,
            {"External id": 2, "cbid": 211, "correlation": 7},
        )
    )


def d09_pairs(opened: Opened) -> None:
    """The nearest launch before the kernel: the one at 1180 us, 20 us earlier."""
    assert [kernel["delay_ns"] for kernel in opened.kernels] == [20_000]
    assert opened.totals["launches"] == 2


def external_ids(change: Any) -> Doc:
    doc = g0()
    for event in doc.events:
        if "External id" in event.get("args", {}):
            event["args"]["External id"] = change(event["args"]["External id"])
    return doc


def many_launches() -> Doc:
    builder = with_launch()
    for i in range(12):
        builder.launch(100_000 + 10_000 * i, 5_000).kernel("sgemm", 200_000 + 10_000 * i, 5_000)
    return builder.doc()


def twelve(opened: Opened) -> None:
    assert len({kernel["launch"] for kernel in opened.kernels}) == 12
    assert {kernel["delay_ns"] for kernel in opened.kernels} == {100_000}


def old_flow(cat: str, name: str) -> bytes:
    return g0().edit(E6, cat=cat, name=name).edit(E8, cat=cat, name=name).bytes()


def hip_partial() -> Doc:
    doc = g0().edit(E5, name="hipDrvLaunchKernelEx")
    del doc.events[E6]
    return doc


def shared_correlation() -> Doc:
    """ROCm: three kernels with the correlation of one launch, and a launch that has none of its
    own.
    """
    builder = with_launch().launch(100_000, 5_000, correlation=5, name="hipLaunchKernel")
    builder.launch(110_000, 5_000, correlation=6, name="hipLaunchKernel")
    for i, stream in enumerate((3, 4, 5)):
        builder.kernel(f"k{stream}", 200_000 + 10_000 * i, 5_000, correlation=5, stream=stream)
    return builder.doc()


def d19_streams(opened: Opened) -> None:
    assert [(kernel["name"], kernel["stream"]) for kernel in opened.kernels] == [
        ("k3", 3),
        ("k4", 4),
        ("k5", 5),
    ]


def sync_event(tid: int, args: Event) -> Event:
    return complete(
        "cuda_sync",
        args["cuda_sync_kind"],
        0,
        tid,
        1_400_000,
        300_000,
        {"device": 0, "context": 1} | args,
    )


def sync_on_tid_1() -> Doc:
    """A sync of no stream, which lands on tid 1, next to a kernel that did run on stream 1."""
    doc = g0().edit(E7, tid=1).args(E7, {"stream": 1}).edit(E8, tid=1)
    return doc.add(sync_event(1, {"cuda_sync_kind": "Event Sync", "stream": -1, "correlation": 12}))


def stream(expected: int) -> Any:
    def run(opened: Opened) -> None:
        is_t0(opened)
        assert [kernel["stream"] for kernel in opened.kernels] == [expected]

    return run


def text_tids() -> Doc:
    doc = g0().edit(E7, tid="stream 7").edit(E8, tid="stream 7").drop(E7, "args.stream")
    for event in doc.events:
        if event["tid"] == 100:
            event["tid"] = "3239786240"
    return doc


def merged(ranks: list[int], ids_from: Doc | None = None) -> Doc:
    """What the mergers write: `[TP00-DP01] 83` for a pid, ids that repeat in every rank, the base
    of rank 0 alone.
    """
    events = []
    for rank in ranks:
        for event in copy.deepcopy((ids_from or g0()).events):
            if event["pid"] in (100, 0):
                event["pid"] = f"[TP{rank:02}-DP00] {event['pid']}"
            events.append(event)
    return Doc(events).head(distributedInfo={"backend": "nccl", "rank": 0, "world_size": 8})


def eightfold(opened: Opened) -> None:
    is_t0(opened, 8)
    assert len({kernel["launch"] for kernel in opened.kernels}) == 8
    assert opened.ledger.count("merged_trace") >= 1


def sevenfold(opened: Opened) -> None:
    is_t0(opened, 7)
    assert opened.ledger.count("merged_trace") >= 1


def no_device(opened: Opened) -> None:
    is_t0(opened)
    assert (
        not opened.doc["trace"]["device"] or "unknown" in str(opened.doc["trace"]["device"]).lower()
    )


def without_devices() -> Doc:
    doc = g0()
    del doc.header["deviceProperties"]
    return doc


def two_models() -> Doc:
    other = DEVICE | {"id": 1, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "numSms": 108}
    return (
        with_launch(TraceBuilder(header={"deviceProperties": [DEVICE, other]}))
        .launch(100_000, 5_000)
        .kernel("a", 200_000, 10_000)
        .launch(110_000, 5_000)
        .kernel("b", 205_000, 10_000, device=1)
    ).doc()


def d33_devices(opened: Opened) -> None:
    assert [(kernel["name"], kernel["device"]) for kernel in opened.kernels] == [("a", 0), ("b", 1)]
    assert opened.totals["gpu_busy_ns"] == 20_000, "busy time is per device, then summed"


def memcpy(args: Event) -> Doc:
    return (
        with_launch()
        .launch(100_000, 5_000)
        .kernel("sgemm", 150_000, 5_000)
        .call(
            "hipMemcpyAsync",
            300_000,
            5_000,
            args={"size": "4096"} if isinstance(args.get("bytes"), str) else None,
        )
        .gpu("gpu_memcpy", "Memcpy DtoD", 320_000, 2_000, args=args)
    ).doc()


def one_memcpy(opened: Opened) -> None:
    assert (opened.totals["memcpys"], opened.totals["kernels"]) == (1, 1)
    assert opened.totals["gpu_busy_ns"] == 7_000
    assert "Infinity" not in tight(opened.doc)


def deep_stack(depth: int) -> Doc:
    frames = [
        complete(
            "python_function",
            f"f{i % 10}",
            100,
            100,
            2_000_000 + i,
            4 * depth - 2 * i,
            {"Python id": i + 1},
        )
        for i in range(depth)
    ]
    return g0().add(*frames)


def d42_depth(opened: Opened) -> None:
    is_t0(opened)
    assert max(event["depth"] or 0 for event in opened.events) == 49_999


def frames_without_parent() -> Doc:
    return g0().add(
        *(
            complete(
                "python_function",
                f"f{i}",
                100,
                100,
                1_500_000 + 10_000 * i,
                5_000,
                {"Python id": 5 + i, "Python parent id": parent},
            )
            for i, parent in enumerate((999, None))
        )
    )


def same_sequence() -> Doc:
    builder = with_launch()
    for i in range(2):
        builder.op(
            "autograd::engine::evaluate_function: MmBackward0",
            100_000 + 50_000 * i,
            40_000,
            args={"Sequence number": 5, "Fwd thread id": 1},
        )
    return builder.launch(110_000, 5_000).kernel("sgemm", 200_000, 5_000).doc()


def comms_without_dtype() -> Doc:
    return (
        TraceBuilder()
        .step(2, 0, 1_000_000)
        .op(
            "record_param_comms",
            1_000,
            100_000,
            args={"Collective name": "allreduce", "Group size": 8},
        )
        .launch(50_000, 5_000)
        .kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            60_000,
            200_000,
            args={"Collective name": "allreduce"},
        )
    ).doc()


def no_bandwidth(opened: Opened) -> None:
    assert [row["gbps"] for row in opened.doc["kernels"]] == [None]
    assert [row["bytes"] for row in opened.doc["kernels"]] == [None]


COMMS = (
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long)",
    "rcclGenericKernel",
    "hccl::AllReduce",
    "oneccl_allreduce_kernel",
)


def comms_kernels() -> Doc:
    builder = with_launch()
    for i, name in enumerate(COMMS):
        builder.launch(100_000 + 10_000 * i, 5_000).kernel(name, 200_000 + 10_000 * i, 5_000)
    return builder.doc()


def all_comms(opened: Opened) -> None:
    assert {row["name"]: row["role"] for row in opened.doc["kernels"]} == dict.fromkeys(
        COMMS, "comms"
    )


def orphans() -> Doc:
    return g0().add(
        *(flow("f", 1000 + i, 100, 100, 1_300_000 + i) for i in range(20)),
        flow("s", 5000, 100, 100, 1_400_000),
    )


def clashing_flows() -> Doc:
    return g0().add(
        flow("s", 7, 100, 100, 1_100_000, "fwdbwd"), flow("f", 7, 100, 101, 1_500_000, "fwdbwd")
    )


CASES = [
    Case("D01", "pdl_overlap", pdl_overlap().bytes(), accept(stream_overlap=1), d01_union),
    Case("D02", "graph_one_to_many", lambda: graph(GRAPH).bytes(), accept(), d02_links),
    Case(
        "D03",
        "graph_launch_outside",
        graph(5, launch=False).bytes(),
        accept(kernel_unlinked=5),
        unlinked(5),
    ),
    Case("D04", "graph_while_node", graph(3).bytes(), accept(), d04_numbers),
    Case("D06", "launch_no_kernel", dropped().bytes(), accept(gpu_events_missing=5), d06_share),
    Case(
        "D07",
        "corr_zero_all_nccl",
        nccl_without_correlation().bytes(),
        accept(corr_zero=50, may="kernel_unlinked gpu_events_missing"),
        unlinked(50),
    ),
    Case("D08", "corr_missing_unique", no_correlation(1).bytes(), accept(), is_t0),
    Case(
        "D08-many",
        "corr_missing_not_unique",
        no_correlation(3).bytes(),
        accept(kernel_unlinked=1, may="gpu_events_missing"),
        unlinked(1),
    ),
    Case(
        "D09",
        "corr_duplicate_rt",
        two_launches_one_id().bytes(),
        accept(corr_duplicate=1, may="gpu_events_missing"),
        d09_pairs,
    ),
    Case("D11", "ext_id_int32", external_ids(lambda i: -2147483648 + i).bytes(), accept(), is_t0),
    *(
        Case(f"D12-{i}", f"ext_id_casing_{i}", no_correlation(1, key).bytes(), accept(), is_t0)
        for i, key in enumerate(("external id", "External Id", "External id"))
    ),
    Case("D13", "ext_id_many_launches", many_launches().bytes(), accept(), twelve),
    Case("D14", "ac2g_f_without_s", orphans().bytes(), accept(), is_t0),
    Case("D16-launch", "ac2g_async", old_flow("async", "launch"), accept(), is_t0),
    Case("D16-gpu", "ac2g_async_gpu", old_flow("async_gpu", "async_gpu"), accept(), is_t0),
    Case(
        "D16-cpu",
        "ac2g_async_cpu_to_gpu",
        old_flow("async_cpu_to_gpu", "async_cpu_to_gpu"),
        accept(),
        is_t0,
    ),
    Case("D17", "flow_id_clash", clashing_flows().bytes(), accept(), is_t0),
    Case("D18", "hip_launch_partial_flow", hip_partial().bytes(), accept(), is_t0),
    # The launch without a kernel of its own may also be counted as one whose GPU event is missing.
    Case(
        "D19",
        "rocm_shared_corr",
        shared_correlation().bytes(),
        accept(corr_duplicate=ANY, may="gpu_events_missing"),
        d19_streams,
    ),
    Case("D21", "stream_minus1_tid1", sync_on_tid_1().bytes(), accept(), stream(1)),
    Case(
        "D22",
        "sync_row_offset",
        g0()
        .add(
            meta("thread_name", 0, 1_000_007, {"name": "stream 7 (sync)"}),
            sync_event(
                1_000_007, {"cuda_sync_kind": "Stream Sync", "stream": 7, "correlation": 12}
            ),
        )
        .bytes(),
        accept(),
        stream(7),
    ),
    Case(
        "D23",
        "tid_64bit",
        g0().edit(E7, tid=HANDLE).args(E7, {"stream": HANDLE}).edit(E8, tid=HANDLE).bytes(),
        accept(),
        stream(HANDLE),
    ),
    Case("D24", "tid_string", text_tids().bytes(), accept(may="arg_type"), stream(7)),
    Case(
        "D26",
        "pid_minus1",
        g0()
        .add(complete("overhead", "Activity Buffer Request", -1, 0, 1_010_000, 700_000))
        .bytes(),
        accept(),
        both(is_t0, lambda opened: opened.named("Activity Buffer Request")),
    ),
    Case("D27", "pid_string_merged", merged(list(range(8))).bytes(), accept(), eightfold),
    Case(
        "D28",
        "merged_missing_rank",
        merged([0, 1, 2, 4, 5, 6, 7]).bytes(),
        accept(rank_missing=1),
        sevenfold,
    ),
    # Only rank 0's base is in the file: all that can be checked from here is that the file is known
    # as a merged one.
    Case(
        "D29",
        "merged_base_first_only",
        merged(list(range(8))).bytes("minified"),
        accept(),
        eightfold,
    ),
    Case("D31", "device_prop_missing", without_devices().bytes(), accept(), no_device),
    Case(
        "D31-empty",
        "device_prop_empty",
        g0().head(deviceProperties=[]).bytes(),
        accept(),
        no_device,
    ),
    Case(
        "D32",
        "device_prop_wrong",
        g0().head(deviceProperties=[DEVICE | {"maxThreadsPerMultiprocessor": 132}]).bytes(),
        accept(),
        is_t0,
    ),
    Case("D33", "hopper_mixed_gpus", two_models().bytes(), accept(), d33_devices),
    Case(
        "D34",
        "nested_shapes",
        g0().args(E4, {"Input Dims": [[2, 3], [], [[4, 5], [6]]]}).bytes(),
        accept(),
        is_t0,
    ),
    Case(
        "D36",
        "grid_string",
        g0()
        .args(E4, {"grid": "grid(4,)", "kernel_hash": "x"})
        .args(E7, {"grid": [4, 1, 1]})
        .bytes(),
        accept(),
        is_t0,
    ),
    Case(
        "D37", "bytes_string", memcpy({"bytes": "4096"}).bytes(), accept(arg_type=ANY), one_memcpy
    ),
    *(
        Case(
            f"D38-{name}",
            f"bandwidth_{name}",
            memcpy({"bytes": 4096, "memory bandwidth (GB/s)": value}).bytes(),
            accept(may="nonfinite arg_type"),
            one_memcpy,
        )
        for name, value in (("inf", "inf"), ("na", "N/A"), ("zero", 0))
    ),
    *(
        Case(
            f"D39-{name}",
            f"args_{name}",
            g0().edit(E4, args=value).bytes(),
            accept(may="arg_type"),
            is_t0,
        )
        for name, value in (
            ("null", None),
            ("true", True),
            ("number", 1.5),
            ("int", 7),
            ("list", []),
            ("string", "x"),
        )
    ),
    Case("D41", "python_parent_missing", frames_without_parent().bytes(), accept(), is_t0),
    Case(
        "D42", "deep_stack_50k", lambda: deep_stack(50_000).bytes("minified"), accept(), d42_depth
    ),
    Case("D43", "seq_dup", same_sequence().bytes(), accept(seq_duplicate=ANY)),
    Case("D44", "collective_fields_missing", comms_without_dtype().bytes(), accept(), no_bandwidth),
    Case("D46", "comm_kernel_rename", comms_kernels().bytes(), accept(), all_comms),
]
