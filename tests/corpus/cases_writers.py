"""Other writers and other versions."""

from __future__ import annotations

from typing import Any

from corpus.build import E4, E5, E7, E9, Doc, Event, Raw, complete, g0, us
from corpus.builder import TraceBuilder
from corpus.cases import ANY, Case, Opened, accept, reject
from corpus.cases_clocks import absolute_us, without_base

NOTHING = "no_gpu_events no_steps base_missing ts_precision"


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


def only(doc: Doc, *phases: str) -> Doc:
    doc.events = [event for event in doc.events if event["ph"] in phases]
    return doc


def nothing_known(opened: Opened) -> None:
    """No complete event: there is nothing to count, and no GPU time to state."""
    assert opened.totals["kernels"] in (0, None)
    assert opened.totals["gpu_busy_ns"] in (0, None)
    assert opened.doc["steps"] == opened.doc["kernels"] == opened.doc["ops"] == []


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


def coordinator() -> bytes:
    """vLLM's front end: a trace without GPU work beside the files of the ranks."""
    return TraceBuilder().op("async_llm.generate", 0, 1_000_000).bytes()


def coordinator_rank(opened: Opened) -> None:
    assert opened.doc["trace"]["rank"] is None


CASES = [
    Case("E01", "torch18_shape", torch18("User").bytes("kineto"), accept(ts_precision=ANY)),
    Case(
        "E01-op",
        "torch18_step_as_operator",
        torch18("Operator").bytes("kineto"),
        accept(ts_precision=ANY),
    ),
    Case("E02", "torch113_shape", torch113().bytes("kineto"), accept(ts_precision=ANY)),
    Case("E03", "header_minimal", minimal().bytes(), accept(ts_precision=ANY)),
    Case(
        "E05",
        "legacy_no_cat",
        legacy(),
        accept(no_gpu_events=1, legacy_format=1, may=NOTHING),
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
        reject("E_NO_EVENTS", "without a trace event"),
    ),
    Case("E07b", "list_empty", b"[]", reject("E_NO_EVENTS", "without a trace event")),
    Case(
        "E08",
        "metadata_only",
        only(g0(), "M").bytes(),
        accept(no_complete_events=1, may=NOTHING),
        nothing_known,
    ),
    Case("E22", "xpu_shape", xpu().bytes(), accept()),
    Case(
        "E23",
        "mtia_shape",
        mtia().bytes(),
        accept(may="no_gpu_events gpu_events_missing"),
        None,
        compared=False,
    ),
    Case("E25", "hpu_privateuse1", other_backends().bytes(), accept(may="gpu_events_missing")),
    Case("E26", "counters", counters().bytes(), accept()),
    Case("E27", "cupti_range", cupti_range().bytes(), accept()),
    Case(
        "E31",
        "vllm_coordinator",
        coordinator(),
        accept(no_gpu_events=1, no_steps=1),
        coordinator_rank,
        file="node7_12.async_llm.1790857026.pt.trace.json",
        forms=False,
    ),
    Case("E32", "cupti_monitor_shape", cupti_monitor().bytes("minified"), accept()),
    Case(
        "E33",
        "log_keys",
        g0()
        .head(INFO=["a log line", "/home/alice/x"], ERROR=["b"], WARNING=[], STAGE=["c"])
        .bytes(),
        accept(),
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
    ),
    *(
        Case(f"E40-{layout}", f"layout_{layout}", g0().bytes(layout), accept())
        for layout in ("kineto", "minified", "lines", "old_order")
    ),
    Case("E40-list", "layout_list", without_base(g0()).bytes("list"), accept(may="base_missing")),
]
