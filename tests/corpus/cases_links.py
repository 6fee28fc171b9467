"""Links from GPU work to launches and ops."""

from __future__ import annotations

from typing import Any

from corpus.build import E5, E6, E7, E8, Doc, complete, flow, g0, gn
from corpus.builder import TraceBuilder
from corpus.cases import ANY, Case, Opened, accept, is_t0

GRAPH = 1_566


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
    """One graph launch with correlation 9 and its kernels, with one arrow half for all of them."""
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


def stream(expected: int) -> Any:
    def run(opened: Opened) -> None:
        is_t0(opened)
        assert [kernel["stream"] for kernel in opened.kernels] == [expected]

    return run


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
    Case("D08", "corr_missing_unique", no_correlation(1).bytes(), accept()),
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
    Case("D11", "ext_id_int32", external_ids(lambda i: -2147483648 + i).bytes(), accept()),
    *(
        Case(f"D12-{i}", f"ext_id_casing_{i}", no_correlation(1, key).bytes(), accept())
        for i, key in enumerate(("external id", "External Id", "External id"))
    ),
    Case("D13", "ext_id_many_launches", many_launches().bytes(), accept(), twelve),
    Case("D14", "ac2g_f_without_s", orphans().bytes(), accept()),
    Case("D16-launch", "ac2g_async", old_flow("async", "launch"), accept()),
    Case("D16-gpu", "ac2g_async_gpu", old_flow("async_gpu", "async_gpu"), accept()),
    Case(
        "D16-cpu",
        "ac2g_async_cpu_to_gpu",
        old_flow("async_cpu_to_gpu", "async_cpu_to_gpu"),
        accept(),
    ),
    Case("D17", "flow_id_clash", clashing_flows().bytes(), accept()),
    Case("D18", "hip_launch_partial_flow", hip_partial().bytes(), accept()),
    # The launch without a kernel of its own may also be counted as one whose GPU event is missing.
    Case(
        "D19",
        "rocm_shared_corr",
        shared_correlation().bytes(),
        accept(corr_duplicate=ANY, may="gpu_events_missing"),
        d19_streams,
    ),
]
