"""Arguments of events."""

from __future__ import annotations

from corpus.build import E4, E7, Doc, Event, complete, g0, tight
from corpus.builder import TraceBuilder
from corpus.cases import ANY, Case, Opened, accept, is_t0
from corpus.cases_links import with_launch


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


CASES = [
    Case(
        "D34",
        "nested_shapes",
        g0().args(E4, {"Input Dims": [[2, 3], [], [[4, 5], [6]]]}).bytes(),
        accept(),
    ),
    Case(
        "D36",
        "grid_string",
        g0()
        .args(E4, {"grid": "grid(4,)", "kernel_hash": "x"})
        .args(E7, {"grid": [4, 1, 1]})
        .bytes(),
        accept(),
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
            f"D39-{name}", f"args_{name}", g0().edit(E4, args=value).bytes(), accept(may="arg_type")
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
    Case("D41", "python_parent_missing", frames_without_parent().bytes(), accept()),
    Case(
        "D42", "deep_stack_50k", lambda: deep_stack(50_000).bytes("minified"), accept(), d42_depth
    ),
    Case("D43", "seq_dup", same_sequence().bytes(), accept(seq_duplicate=ANY), None),
    Case("D44", "collective_fields_missing", comms_without_dtype().bytes(), accept(), no_bandwidth),
    Case("D46", "comm_kernel_rename", comms_kernels().bytes(), accept(), all_comms),
]
