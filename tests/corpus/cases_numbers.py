"""Numbers that are none, times of another clock, ids of another process, rows without a category."""

from __future__ import annotations

from typing import Any

from corpus.build import BASE_NS, E3, E4, E6, E7, Doc, Event, Raw, complete, g0, meta, us
from corpus.builder import TraceBuilder
from corpus.cases import ANY, Case, Check, Opened, accept, gpu_is_t0, is_t0
from corpus.cases_clocks import EPOCH_US, absolute_float, c02_times, odd_ns

HOUR_NS = 3_600 * 10**9


def many(count: int = 80) -> Doc:
    """One step of 800 us: a launch every 10 us, each with a kernel of 4 us that starts 4 us later."""
    builder = TraceBuilder(origin_ns=2 * HOUR_NS).step(1, 0, 10_000 * count)
    for i in range(count):
        at = 10_000 * i
        builder.op("aten::mm", at, 9_000).launch(at + 1_000, 2_000).kernel(
            "sgemm", at + 5_000, 4_000
        )
    return builder.doc()


def moved(offset_ns: int, chosen: slice) -> Doc:
    """The same with some kernels stamped by another clock."""
    doc = many()
    for kernel in [event for event in doc.events if event.get("cat") == "kernel"][chosen]:
        kernel["ts"] = us(round(float(kernel["ts"]) * 1000) + offset_ns)
    return doc


def set_aside(count: int) -> Check:
    """Those kernels count and keep their op; the times are those of the others."""

    def run(opened: Opened) -> None:
        assert opened.totals["kernels"] == 80
        assert opened.totals["gpu_busy_ns"] == 4_000 * (80 - count)
        assert opened.totals["gpu_span_ns"] <= 800_000
        assert [kernel["op_name"] for kernel in opened.kernels] == ["aten::mm"] * 80
        delays = [kernel["delay_ns"] for kernel in opened.kernels]
        assert sorted(delays, key=str) == [4_000] * (80 - count) + [None] * count
        assert opened.doc["steps"][0]["kernels"] == 80

    return run


def own_clock(opened: Opened) -> None:
    """GPU times hold on the GPU's clock; nothing compares them with the host's."""
    assert opened.totals["gpu_busy_ns"] == 320_000
    assert opened.totals["gpu_span_ns"] == 794_000
    assert {kernel["delay_ns"] for kernel in opened.kernels} == {None}
    assert {kernel["op_name"] for kernel in opened.kernels} == {"aten::mm"}
    assert opened.trace.idle.by_cause() == {"unknown": 474_000}
    assert not [row for row in opened.doc["findings"] if (row["at_most_ns"] or 0) > 800_000]
    assert "s apart" in next(n.text for n in opened.ledger.notes if n.code == "clock_mismatch")


def put_right(opened: Opened) -> None:
    """Nothing starts before its launch: the clock is early, and the times are moved."""
    assert opened.totals["gpu_busy_ns"] == 320_000
    assert {kernel["delay_ns"] for kernel in opened.kernels} == {7_000}
    assert "unknown" not in opened.trace.idle.by_cause()
    assert "3,600 s early" in next(n.text for n in opened.ledger.notes if n.code == "clock_offset")


def long_pauses() -> Doc:
    """Three steps with pauses of 20 minutes, and a late kernel of 5 minutes: a real recording."""
    builder = TraceBuilder()
    for step in range(3):
        at = 1_200 * 10**9 * step
        builder.step(step, at, 100_000).op("aten::mm", at, 90_000).launch(at + 1_000, 5_000)
        builder.kernel("sgemm", at + 10_000, 300 * 10**9 if step == 2 else 50_000)
    return builder.doc()


def no_note(opened: Opened) -> None:
    assert opened.totals["gpu_busy_ns"] == 300 * 10**9 + 100_000
    assert [kernel["delay_ns"] for kernel in opened.kernels] == [9_000] * 3


def text_times() -> Doc:
    """Absolute times as text, as torch_npu writes them."""
    doc = absolute_float(odd_ns())
    for event in doc.events:
        if "ts" in event:
            event["ts"] = str(event["ts"])
    return doc


def late_absolute() -> Doc:
    """The first time stands behind 300 KiB of metadata."""
    doc = absolute_float(odd_ns())
    names = [meta("process_name", 1_000 + i, 0, {"name": "x" * 200}) for i in range(1_000)]
    doc.events[:0] = names
    return doc


def two_processes(shift_ns: int, devices: tuple[int, int], externals: tuple[int, int]) -> Doc:
    """Two processes with the same correlation ids, each with an op of its own name."""
    parts = []
    for at, pid in enumerate((100, 200)):
        builder = TraceBuilder(
            pid=pid, tid=pid, device=devices[at], stream=7 + at, origin_ns=1_000_000 + at * shift_ns
        )
        builder.external = externals[at]
        builder.step(pid, 0, 100_000)
        for i in range(10):
            builder.op(f"op{pid}", 10_000 * i, 9_000).launch(10_000 * i + 1_000, 2_000)
            builder.kernel(f"kernel{pid}", 10_000 * i + 5_000, 3_000)
        parts += builder.doc().events
    return Doc(parts)


def own_ops(opened: Opened) -> None:
    assert [kernel["op_name"][2:] for kernel in opened.kernels] == [
        kernel["name"][6:] for kernel in opened.kernels
    ]
    assert [row["kernels"] for row in opened.doc["steps"]] == [10, 10]
    steps = {event["name"]: event["step"] for event in opened.events if event["kind"] == "cpu_op"}
    assert steps == {"op100": 0, "op200": 1}


def unlinked(opened: Opened) -> None:
    """Nothing says whose they are: no kernel has an op, and none the other's."""
    assert {kernel["op_name"] for kernel in opened.kernels} == {None}
    assert {kernel["launch"] for kernel in opened.kernels} == {None}
    assert not opened.trace.gpu.before_recording.any()
    assert [row["kernels"] for row in opened.doc["steps"]] == [0, 0]


def bare(name: str, pid: Any, tid: Any, ts: int, dur: int) -> Event:
    return complete(None, name, pid, tid, ts, dur)


def named(pid: Any, process: str, *threads: tuple[Any, str]) -> list[Event]:
    rows = [meta("thread_name", pid, tid, {"name": name}) for tid, name in threads]
    return [meta("process_name", pid, 0, {"name": process}), *rows]


def jax() -> Doc:
    """JAX: no categories; a device's streams, and rows that group their kernels."""
    threads = ((20, "Stream #20(Compute,MemcpyH2D)"), (90, "XLA Ops"), (91, "XLA Modules"))
    return Doc(
        [
            *named(1, "/device:GPU:0", *threads),
            *named(701, "/host:CPU", (5, "python")),
            bare("PjitFunction(step)", 701, 5, 1_000_000, 500_000),
            bare("gemm_fusion_dot_1", 1, 20, 1_200_000, 50_000),
            bare("MemcpyH2D", 1, 20, 1_260_000, 10_000),
            bare("dot.1", 1, 90, 1_200_000, 50_000),
            bare("jit_step", 1, 91, 1_200_000, 70_000),
        ]
    )


def jax_rows(opened: Opened) -> None:
    totals = opened.totals
    assert (totals["kernels"], totals["memcpys"], totals["cpu_ops"]) == (1, 1, 1)
    assert totals["gpu_busy_ns"] == 60_000


def ascend() -> Doc:
    """torch_npu: ops have a category, rows of CANN, streams and the overlap of both have none."""
    return Doc(
        [
            *named(7, "Python"),
            *named(8, "CANN"),
            *named(9, "Ascend Hardware", (2, "Stream 2")),
            *named(10, "Overlap Analysis", (0, "Computing"), (1, "Free")),
            complete("cpu_op", "aten::mm", 7, 7, 1_000_000, 50_000, {}),
            bare("AscendCL@aclnnMatmul", 8, 7, 1_010_000, 9_000),
            bare("MatMulV2", 9, 2, 1_040_000, 30_000),
            bare("Computing", 10, 0, 1_040_000, 30_000),
            bare("Free", 10, 1, 1_070_000, 10_000),
        ]
    )


def ascend_rows(opened: Opened) -> None:
    assert (opened.totals["cpu_ops"], opened.totals["kernels"]) == (1, 0)


def case(ident: str, name: str, doc: Doc, expect: Any, check: Check) -> Case:
    return Case(ident, name, doc.bytes(), expect, check, compared=False)


ODD_IDS = ("stream ²", "--5", "٣", "9" * 5_000)
ODD_TIMES = ("1e9999999", '"sNaN"', '"1e9999999"', "1e99999999999999999999", '"٣"', '"inf"')


def untimed(opened: Opened) -> None:
    assert opened.totals["kernels"] == 1
    assert opened.totals["gpu_busy_ns"] is None


def t0_without_step(opened: Opened) -> None:
    gpu_is_t0(opened)
    assert opened.doc["steps"] == []


CASES = [
    case(
        "N01",
        "one_other_epoch",
        moved(BASE_NS, slice(40, 41)),
        accept(time_outlier=1),
        set_aside(1),
    ),
    case("N02", "ten_far_off", moved(10**14, slice(10)), accept(time_outlier=10), set_aside(10)),
    case("N03", "hour_late", moved(HOUR_NS, slice(None)), accept(clock_mismatch=1), own_clock),
    case("N04", "hour_early", moved(-HOUR_NS, slice(None)), accept(clock_offset=1), put_right),
    case("N05", "long_pauses", long_pauses(), accept(), no_note),
    Case(
        "N06",
        "absolute_times_as_text",
        text_times().bytes(),
        accept(ts_type=ANY, may="ts_precision"),
        c02_times,
    ),
    Case(
        "N07",
        "absolute_after_metadata",
        lambda: late_absolute().bytes(),
        accept(may="ts_precision"),
        c02_times,
    ),
    case(
        "N08",
        "dur_282_years",
        g0().edit(E7, dur=Raw("8.9e15")),
        accept(ts_out_of_window=1),
        untimed,
    ),
    case("N09", "dur_142_years", g0().edit(E7, dur=Raw("4.5e15")), accept(time_outlier=1), untimed),
    case(
        "N10",
        "step_5000_digits",
        g0().edit(E3, name="ProfilerStep#" + "9" * 5_000),
        accept(no_steps=1),
        t0_without_step,
    ),
    case("N11", "flow_id_float", g0().edit(E6, id=Raw("1.8e19")), accept(), is_t0),
    case("N12", "base_no_digit", g0().head(baseTimeNanoseconds="²"), accept(base_missing=1), is_t0),
    case(
        "N13",
        "base_5000_digits",
        g0().head(baseTimeNanoseconds="9" * 5_000),
        accept(base_missing=1),
        is_t0,
    ),
    case(
        "N14",
        "epoch_with_base",
        g0().edit(E4, ts=Raw(f"{EPOCH_US}.067")),
        accept(time_outlier=1),
        lambda opened: None,
    ),
    case("N20", "two_processes_later", two_processes(200_000, (0, 1), (0, 0)), accept(), own_ops),
    case(
        "N21",
        "two_processes_external",
        two_processes(500, (0, 0), (0, 500)),
        accept(may="stream_overlap"),
        own_ops,
    ),
    case(
        "N22",
        "two_processes_alike",
        two_processes(500, (0, 0), (0, 0)),
        accept(corr_duplicate=20, kernel_unlinked=20),
        unlinked,
    ),
    case("N23", "step_of_another_pid", g0().edit(E3, pid=999), accept(), is_t0),
    case("N30", "jax", jax(), accept(kernel_unlinked=2, no_steps=1), jax_rows),
    case("N31", "ascend", ascend(), accept(no_gpu_events=1, no_steps=1), ascend_rows),
    *(
        case(
            f"N40-{at}",
            f"odd_stream_{at}",
            g0().edit(E7, tid=text).drop(E7, "args.stream"),
            accept(),
            is_t0,
        )
        for at, text in enumerate(ODD_IDS)
    ),
    *(
        case(
            f"N41-{at}",
            f"odd_device_{at}",
            g0().edit(E7, pid=text).drop(E7, "args.device"),
            accept(),
            is_t0,
        )
        for at, text in enumerate(ODD_IDS)
    ),
    *(
        case(
            f"N42-{at}",
            f"odd_time_{at}",
            absolute_float(g0()).edit(E7, ts=Raw(text)),
            accept(may="ts_precision ts_missing ts_out_of_window ts_type"),
            untimed,
        )
        for at, text in enumerate(ODD_TIMES)
    ),
    *(
        case(
            f"N43-{at}",
            f"odd_duration_{at}",
            g0().edit(E7, dur=Raw(text)),
            accept(may="dur_missing ts_out_of_window ts_type"),
            untimed,
        )
        for at, text in enumerate(ODD_TIMES)
    ),
]
