"""E: other producers, other versions, and content that is missing."""

from __future__ import annotations

from typing import Any

from corpus.build import E3, E4, E5, E7, E9, Doc, Event, Raw, complete, g0, gn, us
from corpus.builder import TraceBuilder
from corpus.cases import ANY, Case, Opened, accept, both, gpu_is_t0, is_t0, kernel_names, reject
from corpus.cases_c import absolute_us, without_base

NOTHING = "no_gpu_events no_steps base_missing ts_precision"


# ---- old and other producers
# ----------------------------------------------------------------------------------------


def torch18(step_cat: str) -> Doc:
    """torch 1.8: other category names, ids as text, `Input dims`, `external id`, whole microseconds
    since the epoch.
    """
    doc = absolute_us(g0())
    cats = {
        "cpu_op": "Operator",
        "cuda_runtime": "Runtime",
        "kernel": "Kernel",
        "user_annotation": step_cat,
        "ac2g": "async",
    }
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


def torch113() -> Doc:
    doc = absolute_us(g0())
    for event in doc.events:
        if event.get("cat") in ("cpu_op", "user_annotation"):
            index = event["args"].pop("Ev Idx")
            event["args"] |= {
                "Trace name": "PyTorch Profiler",
                "Trace iteration": 0,
                "Profiler Event Index": index,
            }
    return doc


def minimal() -> Doc:
    # A file with nothing but events states no base; with times since the epoch only their
    # coarseness is left to note.
    doc = absolute_us(g0())
    doc.header, doc.tail = {}, {}
    return doc


def legacy() -> bytes:
    """`EventList.export_chrome_trace` of the old autograd profiler: a list, no categories, pids in
    words.
    """
    events = [
        {
            "name": name,
            "ph": "X",
            "ts": Raw(ts),
            "dur": Raw(dur),
            "tid": 1,
            "pid": "CPU functions",
            "args": {},
        }
        for name, ts, dur in (("aten::linear", "0.5", "100.25"), ("aten::addmm", "10.125", "50"))
    ]
    return Doc(events).bytes("list")


def legacy_ops(opened: Opened) -> None:
    assert opened.totals["cpu_ops"] == 2
    assert opened.totals["kernels"] == 0
    assert (
        opened.op("aten::linear")["total_cpu_ns"],
        opened.op("aten::linear")["self_cpu_ns"],
    ) == (100_250, 50_250)


def cupti_monitor() -> Doc:
    doc = g0().drop(E7, "args.External id")
    doc.args(E7, {"graph id": 0, "graph node id": 0, "annotation": None, "free key": "x"})
    return doc.add(complete("overhead", "Buffer Flush", -1, 0, 1_010_000, 1_000))


def xpu() -> Doc:
    doc = g0().edit(E5, cat="xpu_runtime", name="urEnqueueKernelLaunch")
    doc.args(
        E7,
        {
            "sycl queue": "0x55d0c0ffee",
            "memory opration id": "0x1",
            "kernel_id": 5,
            "appended": "1.000",
        },
    )
    return doc.head(
        deviceProperties=[
            {"id": 0, "name": "Intel(R) Data Center GPU Max 1550", "maxComputeUnits": 512}
        ]
    )


def mtia() -> Doc:
    doc = g0()
    doc.events = [
        event
        for event in doc.events
        if event.get("cat") not in ("kernel", "cuda_runtime", "ac2g", "gpu_user_annotation")
    ]
    return doc.add(
        complete(
            "mtia_runtime",
            "launchKernel",
            100,
            100,
            1_150_000,
            5_000,
            {"stream_id": 3, "correlation": 7},
        ),
        complete(
            "mtia_runtime",
            "launchKernel",
            100,
            100,
            1_160_000,
            5_000,
            {"stream_id": "3", "correlation": 8},
        ),
        complete(
            "mtia_ccp_events",
            "fc_kernel",
            0,
            3,
            1_200_000,
            9_000,
            {"stream_id": "3", "correlation": 7},
        ),
    )


def other_backends() -> Doc:
    return g0().add(
        complete("hpu_op", "hpu::matmul", 100, 100, 1_400_000, 5_000),
        complete("privateuse1_runtime", "launch", 100, 100, 1_410_000, 5_000, {"correlation": 99}),
    )


def counters() -> Doc:
    return g0().add(
        *(
            {
                "ph": "C",
                "cat": "hardware_counters",
                "name": "dram__bytes",
                "pid": "GPU 0 Counters",
                "tid": 0,
                "ts": us(1_200_000 + i),
                "args": {"": 1.5},
            }
            for i in range(3)
        )
    )


def cupti_range() -> Doc:
    return g0().add(
        complete(
            "cuda_profiler_range",
            "range 0",
            0,
            7,
            1_200_000,
            40_000,
            {"smsp__cycles.sum": 12.5, "x/y": 1},
        )
    )


# ---- missing content
# ------------------------------------------------------------------------------------------------


def only(doc: Doc, *phases: str) -> Doc:
    doc.events = [event for event in doc.events if event["ph"] in phases]
    return doc


def nothing_known(opened: Opened) -> None:
    """No complete event: there is nothing to count, and no GPU time to state."""
    assert opened.totals["kernels"] in (0, None)
    assert opened.totals["gpu_busy_ns"] in (0, None)
    assert opened.doc["steps"] == opened.doc["kernels"] == opened.doc["ops"] == []


def gpu_only() -> Doc:
    doc = gn(4)
    doc.events = [
        event for event in doc.events if event.get("cat") in ("kernel", None) or event["ph"] == "M"
    ]
    return doc


def e10_tables(opened: Opened) -> None:
    assert opened.totals["kernels"] == 4
    assert opened.totals["gpu_busy_ns"] == 200_000
    assert [(row["name"], row["count"], row["total_ns"]) for row in opened.doc["kernels"]] == [
        ("sgemm", 4, 200_000)
    ]


def no_steps() -> Doc:
    doc = g0()
    del doc.events[E9], doc.events[E3]
    return doc


def steps(*indices: int) -> Doc:
    builder = TraceBuilder()
    for at, index in enumerate(indices):
        start = 1_000_000 * at
        builder.step(index, start, 900_000).op("aten::mm", start + 100_000, 200_000)
        builder.launch(start + 150_000, 10_000).kernel("sgemm", start + 200_000, 50_000)
    return builder.doc()


def e12_steps(opened: Opened) -> None:
    assert [(step["index"], step["kernels"]) for step in opened.doc["steps"]] == [
        (3, 1),
        (3, 1),
        (4, 1),
        (6, 1),
    ]


def gpu_step_short() -> Doc:
    """The GPU's own step mark ends before the second kernel of the step starts."""
    return (
        TraceBuilder()
        .step(2, 0, 1_000_000)
        .op("aten::mm", 100_000, 400_000)
        .launch(150_000, 10_000)
        .kernel("first", 200_000, 50_000)
        .launch(250_000, 10_000)
        .kernel("second", 1_300_000, 50_000)
        .gpu("gpu_user_annotation", "ProfilerStep#2", 199_999, 50_002)
    ).doc()


def e13_step(opened: Opened) -> None:
    assert [
        (step["cpu_ns"], step["kernels"], step["gpu_busy_ns"]) for step in opened.doc["steps"]
    ] == [(1_000_000, 2, 100_000)]


# ---- odd categories, phases and names
# -------------------------------------------------------------------------------


def unknown_cats() -> Doc:
    cats = ("tpu_op", "xpu_sync", "hardware_counters", "cuda_event")
    return g0().add(
        *(
            complete(cat, cat, 0, 9, 1_400_000 + 10_000 * i, 5_000, {"device": 0})
            for i, cat in enumerate(cats)
        )
    )


def e15_counted(opened: Opened) -> None:
    is_t0(opened)
    assert opened.ledger.count("unknown_category") >= 1
    assert opened.ledger.kept == 15


def phase(ph: Any, name: str, ts: int, **fields: Any) -> Event:
    return {"ph": ph, "cat": "cpu_op", "name": name, "pid": 100, "tid": 101, "ts": us(ts)} | fields


def phases() -> Doc:
    pairs = [
        phase("B", "outer", 1_400_000),
        phase("B", "inner", 1_410_000),
        phase("E", "inner", 1_420_000),
        phase("E", "outer", 1_450_000),
    ]
    others = [phase(ph, "odd", 1_500_000 + i) for i, ph in enumerate("QbeNODPRc")]
    return g0().add(*pairs, *others, phase("C", "counter", 1_600_000, args={"x": 1}))


def e16_pairs(opened: Opened) -> None:
    assert opened.op("outer") == opened.op("outer") | {
        "count": 1,
        "total_cpu_ns": 50_000,
        "self_cpu_ns": 40_000,
    }
    assert opened.op("inner") == opened.op("inner") | {"count": 1, "total_cpu_ns": 10_000}
    assert opened.totals["cpu_ops"] == 3
    assert opened.ledger.count("unknown_phase") >= 9


def bad_phases() -> Doc:
    missing = phase("X", "c", 1_520_000)
    del missing["ph"]
    return g0().add(phase("XX", "a", 1_500_000), phase("", "b", 1_510_000), missing)


def e17_counted(opened: Opened) -> None:
    is_t0(opened)
    assert opened.ledger.count("unknown_phase") == 3


# ---- ranks and sets
# -------------------------------------------------------------------------------------------------


def with_info(info: Event) -> Doc:
    return g0().head(distributedInfo=info)


def info_last(info: Event) -> Doc:
    """On-demand recording writes the block after the events."""
    doc = g0()
    doc.tail["distributedInfo"] = info
    return doc


def rank(expected: int | None) -> Any:
    def run(opened: Opened) -> None:
        is_t0(opened)
        assert opened.doc["trace"]["rank"] == expected

    return run


def coordinator() -> bytes:
    """vLLM's front end: a trace without GPU work beside the files of the ranks."""
    return TraceBuilder().op("async_llm.generate", 0, 1_000_000).bytes()


def coordinator_rank(opened: Opened) -> None:
    assert opened.doc["trace"]["rank"] is None


CASES = [
    Case("E01", "torch18_shape", torch18("User").bytes("kineto"), accept(ts_precision=ANY), is_t0),
    Case(
        "E01-op",
        "torch18_step_as_operator",
        torch18("Operator").bytes("kineto"),
        accept(ts_precision=ANY),
        is_t0,
    ),
    Case("E02", "torch113_shape", torch113().bytes("kineto"), accept(ts_precision=ANY), is_t0),
    Case("E03", "header_minimal", minimal().bytes(), accept(ts_precision=ANY), is_t0),
    Case(
        "E05",
        "legacy_no_cat",
        legacy(),
        accept(no_gpu_events=1, may=NOTHING),
        legacy_ops,
        file="legacy.json",
    ),
    Case(
        "E06",
        "events_object",
        b'{"traceEvents": {"0": {"ph": "X", "name": "a", "ts": 1, "dur": 2}}}',
        reject("E_NO_EVENTS"),
    ),
    Case(
        "E07",
        "events_empty",
        Doc([]).bytes(),
        accept(no_complete_events=1, may=NOTHING),
        nothing_known,
    ),
    Case(
        "E08",
        "metadata_only",
        only(g0(), "M").bytes(),
        accept(no_complete_events=1, may=NOTHING),
        nothing_known,
    ),
    Case("E10", "gpu_only", gpu_only().bytes(), accept(kernel_unlinked=4, no_steps=1), e10_tables),
    Case("E11", "no_steps", no_steps().bytes(), accept(no_steps=1), gpu_is_t0),
    Case("E12", "steps_gap_dup", steps(3, 3, 4, 6).bytes(), accept(), e12_steps),
    Case("E13", "step_gpu_mismatch", gpu_step_short().bytes(), accept(), e13_step),
    Case("E15", "unknown_cat", unknown_cats().bytes(), accept(), e15_counted),
    Case("E16", "unknown_ph", phases().bytes(), accept(), e16_pairs),
    Case("E17", "ph_long_or_missing", bad_phases().bytes(), accept(), e17_counted),
    Case(
        "E18",
        "kernel_named_Kernel",
        g0().edit(E7, name="Kernel").bytes(),
        accept(),
        both(is_t0, kernel_names("Kernel")),
    ),
    Case(
        "E20",
        "name_missing",
        g0().drop(E7, "name").bytes(),
        accept(),
        both(is_t0, kernel_names("(no name)")),
    ),
    Case(
        "E20-number",
        "name_number",
        g0().edit(E7, name=7).bytes(),
        accept(may="arg_type"),
        both(is_t0, kernel_names("7")),
    ),
    Case(
        "E21",
        "empty_name",
        g0().edit(E7, name="").bytes(),
        accept(),
        both(is_t0, kernel_names("(empty)")),
    ),
    Case("E22", "xpu_shape", xpu().bytes(), accept(), is_t0),
    Case(
        "E23",
        "mtia_shape",
        mtia().bytes(),
        accept(may="no_gpu_events gpu_events_missing"),
        compared=False,
    ),
    Case(
        "E25", "hpu_privateuse1", other_backends().bytes(), accept(may="gpu_events_missing"), is_t0
    ),
    Case("E26", "counters", counters().bytes(), accept(), is_t0),
    Case("E27", "cupti_range", cupti_range().bytes(), accept(), is_t0),
    Case(
        "E28-int",
        "rank_int",
        with_info({"backend": "nccl", "rank": 3, "world_size": 8}).bytes(),
        accept(),
        rank(3),
    ),
    Case(
        "E28-str",
        "rank_str",
        with_info({"backend": "nccl", "rank": "3", "world_size": "8"}).bytes(),
        accept(may="arg_type"),
        rank(3),
    ),
    Case(
        "E28-two",
        "rank_two_backends",
        with_info({"backend": "cuda:nccl,cpu:gloo", "rank": 1, "world_size": 2}).bytes(),
        accept(),
        rank(1),
    ),
    Case(
        "E28-none",
        "rank_missing",
        with_info({"backend": "nccl", "world_size": "2"}).bytes(),
        accept(rank_unknown=1),
        is_t0,
    ),
    Case(
        "E28-late",
        "rank_after_events",
        info_last({"backend": "nccl", "rank": 5, "world_size": 8}).bytes(),
        accept(),
        rank(5),
    ),
    # Two files of one rank make a set with a clash; one of them alone is a good trace.
    Case(
        "E30",
        "rank_duplicate_one_file",
        with_info({"backend": "nccl", "rank": 0, "world_size": 2}).bytes(),
        accept(),
        rank(0),
    ),
    Case(
        "E31",
        "vllm_coordinator",
        coordinator(),
        accept(no_gpu_events=1, no_steps=1),
        coordinator_rank,
        file="node7_12.async_llm.1790857026.pt.trace.json",
        forms=False,
    ),
    Case("E32", "cupti_monitor_shape", cupti_monitor().bytes("minified"), accept(), is_t0),
    Case(
        "E33",
        "log_keys",
        g0()
        .head(INFO=["a log line", "/home/alice/x"], ERROR=["b"], WARNING=[], STAGE=["c"])
        .bytes(),
        accept(),
        is_t0,
    ),
    Case(
        "E35",
        "paths_everywhere",
        g0()
        .args(
            E4,
            {
                "Call stack": "/home/alice/secret_project/m.py(3): f",
                "kernel_file": "/home/alice/k.py",
            },
        )
        .bytes(),
        accept(),
        is_t0,
    ),
    *(
        Case(f"E40-{layout}", f"layout_{layout}", g0().bytes(layout), accept(), is_t0)
        for layout in ("kineto", "minified", "lines", "old_order")
    ),
    Case(
        "E40-list",
        "layout_list",
        without_base(g0()).bytes("list"),
        accept(may="base_missing"),
        is_t0,
    ),
]
