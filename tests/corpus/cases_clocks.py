"""Clocks, time bases and the order of host and GPU."""

from __future__ import annotations

from typing import Any

from corpus.build import BASE_NS, E5, E7, E8, E11, Doc, Event, Raw, complete, g0, gn, us
from corpus.builder import TraceBuilder
from corpus.cases import ANY, Case, Opened, accept, gpu_is_t0, gpu_time_unknown, is_t0

EPOCH_US = 1_708_722_576_380_804

QUARTER_NS = 7_889_238_000_000_000

TEN_YEARS_NS = 10 * 365 * 86_400 * 10**9


def absolute_us(doc: Doc) -> Doc:
    """The oldest era: whole microseconds since the epoch, no base."""
    del doc.header["baseTimeNanoseconds"]
    for event in doc.events:
        if "ts" in event:
            event["ts"] = EPOCH_US + int(event["ts"].partition(".")[0])
        if "dur" in event:
            event["dur"] = round(float(event["dur"]))
    return doc


def absolute_float(doc: Doc) -> Doc:
    """Nightlies of spring 2024: floats since the epoch, where a double steps by a quarter of a
    microsecond.
    """
    del doc.header["baseTimeNanoseconds"]
    for event in doc.events:
        if "ts" in event:
            event["ts"] = Raw(
                f"{EPOCH_US + int(event['ts'].partition('.')[0])}.{event['ts'].partition('.')[2]}"
            )
    return doc


def without_base(doc: Doc) -> Doc:
    del doc.header["baseTimeNanoseconds"]
    return doc


def c01_times(opened: Opened) -> None:
    is_t0(opened)
    assert opened.kernels[0]["ts_ns"] == (EPOCH_US + 1200) * 1000


def odd_ns() -> Doc:
    """G0 with a launch and a kernel at nanoseconds that no double near 1.7e15 can state."""
    return g0().edit(E5, ts=us(1_150_047)).edit(E7, ts=us(1_200_916))


def c02_times(opened: Opened) -> None:
    assert opened.kernels[0]["ts_ns"] == (EPOCH_US + 1200) * 1000 + 916
    assert opened.kernels[0]["delay_ns"] == 50_869


def c03_times(opened: Opened) -> None:
    is_t0(opened)
    assert opened.kernels[0]["ts_ns"] == 1_200_000


def late_base(opened: Opened) -> None:
    """The second rank of a pair whose bases differ by a quarter of a year: time is base + ts."""
    is_t0(opened)
    assert opened.kernels[0]["ts_ns"] == BASE_NS + QUARTER_NS + 1_200_000


def last_of_quarter() -> Doc:
    """The launch 49 999.999 us before the last nanosecond that a relative time can state, the
    kernel on it.
    """
    last = QUARTER_NS - 1
    return (
        TraceBuilder(origin_ns=last - 100_000)
        .step(2, 0, 100_000)
        .op("aten::mm", 10_000, 80_000)
        .launch(50_001, 1_000)
        .kernel("sgemm", 100_000, 1)
    ).doc()


def c06_times(opened: Opened) -> None:
    assert opened.kernels[0]["ts_ns"] == BASE_NS + 7_889_237_999_999_999
    assert opened.kernels[0]["delay_ns"] == 49_999
    assert opened.totals["gpu_busy_ns"] == 1


def counted(opened: Opened) -> None:
    """The odd event is one more op, counted and without any time of its own."""
    gpu_is_t0(opened)
    row = opened.op("odd")
    assert (row["count"], row["total_cpu_ns"], row["self_cpu_ns"]) == (1, 0, 0)


def odd_op(**fields: Any) -> Event:
    return complete("cpu_op", "odd", 100, 100, 1_500_000, 1_000, {"External id": 9}) | fields


def thousand_lost() -> Doc:
    """1 000 good launches and 1 000 whose kernels came without a time."""
    doc = gn(2000)
    for i in range(1, 2000, 2):
        doc.edit(E7 + 5 * i, ts=us(0), dur=us(0)).edit(E8 + 5 * i, ts=us(0))
    return doc


def c13_numbers(opened: Opened) -> None:
    assert opened.totals["kernels"] == 2000
    assert opened.totals["gpu_busy_ns"] == 50_000_000
    assert opened.totals["gpu_span_ns"] == 300_000 * 1998 + 50_000


def all_lost() -> Doc:
    doc = gn(3)
    for i in range(3):
        doc.edit(E7 + 5 * i, ts=us(0), dur=us(0)).edit(E8 + 5 * i, ts=us(0))
    return doc


def clamped() -> Doc:
    return g0().add(
        *(
            complete("cpu_op", f"early{i}", 100, 100, 0, 5_000, {"External id": 20 + i})
            for i in range(3)
        )
    )


def c16_numbers(opened: Opened) -> None:
    gpu_is_t0(opened)
    assert opened.totals["cpu_ops"] == 4
    assert [opened.op(f"early{i}")["total_cpu_ns"] for i in range(3)] == [0, 0, 0]


def delay(expected: int | None) -> Any:
    def run(opened: Opened) -> None:
        assert [kernel["delay_ns"] for kernel in opened.kernels] == [expected]
        assert opened.totals["gpu_busy_ns"] == 50_000
        assert opened.totals["launches"] == 1

    return run


def rocm_drift() -> Doc:
    """The launch starts in aten::mm and ends 5 us after it; aten::linear holds both."""
    return (
        TraceBuilder()
        .step(2, 0, 1_000_000)
        .op("aten::linear", 90_000, 310_000)
        .op("aten::mm", 100_000, 100_000)
        .launch(195_000, 10_000, name="hipLaunchKernel")
        .kernel("Cijk_gemm", 250_000, 50_000)
    ).doc()


def c20_links(opened: Opened) -> None:
    events = {event["id"]: event for event in opened.events}
    call = opened.named("hipLaunchKernel")
    # A call belongs to the range it starts in: drift moves its end, not its caller.
    assert events[call["parent"]]["name"] == "aten::mm"
    assert opened.kernels[0]["launch"] == call["id"]
    assert opened.kernels[0]["op_name"] == "aten::mm"
    assert opened.doc["steps"][0]["kernels"] == 1


def skewed(offset_ns: int) -> Doc:
    doc = (
        TraceBuilder(origin_ns=1_000_000 + offset_ns)
        .step(2, 0, 500_000)
        .op("c10d::allreduce_", 1_000, 100_000)
        .launch(50_000, 5_000)
        .kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 60_000, 200_000)
    ).doc()
    return doc.head(distributedInfo={"backend": "nccl", "rank": 1, "world_size": 2})


def no_straggler(opened: Opened) -> None:
    """One rank alone says nothing about who waits for whom."""
    assert opened.totals["gpu_busy_ns"] == 200_000
    assert not any("straggler" in str(finding).lower() for finding in opened.doc["findings"])


def busy(expected: int) -> Any:
    def run(opened: Opened) -> None:
        assert opened.totals["gpu_busy_ns"] == expected
        assert sum(row["total_ns"] for row in opened.doc["kernels"]) == expected

    return run


CASES = [
    Case("C01", "int_us_absolute", absolute_us(g0()).bytes(), accept(ts_precision=ANY), c01_times),
    # The text states nanoseconds; only a reader that goes through doubles loses them. A note that
    # says so is allowed.
    Case(
        "C02",
        "float_us_absolute",
        absolute_float(g0()).bytes(),
        accept(may="ts_precision"),
        c01_times,
    ),
    Case(
        "C02-ns",
        "float_us_absolute_ns",
        absolute_float(odd_ns()).bytes(),
        accept(may="ts_precision"),
        c02_times,
    ),
    Case("C03", "relative_no_base", without_base(g0()).bytes(), accept(base_missing=1), c03_times),
    Case("C04", "unit_ns_label", g0().head(displayTimeUnit="ns").bytes(), accept()),
    Case(
        "C05",
        "base_differs_second_rank",
        g0().head(baseTimeNanoseconds=BASE_NS + QUARTER_NS).bytes(),
        accept(),
        late_base,
    ),
    Case("C06", "last_ns_of_quarter", last_of_quarter().bytes(), accept(), c06_times),
    Case(
        "C08",
        "ts_string_bad",
        g0().add(odd_op(ts="12x")).bytes(),
        accept(good=12, seen=12, ts_missing=1),
        counted,
    ),
    Case(
        "C08-good",
        "ts_string_good",
        g0().edit(E7, ts="1200.000", dur="50.000").bytes(),
        accept(ts_type=ANY),
    ),
    Case(
        "C13",
        "gpu_ts_zero",
        lambda: thousand_lost().bytes(),
        accept(gpu_no_timestamp=1000),
        c13_numbers,
    ),
    Case("C14", "all_ts_zero", all_lost().bytes(), accept(gpu_no_timestamp=3), gpu_time_unknown),
    Case("C15", "record_window_end_far", g0().edit(E11, ts=us(TEN_YEARS_NS)).bytes(), accept()),
    Case("C16", "clamped_at_base", clamped().bytes(), accept(ts_out_of_window=3), c16_numbers),
    Case(
        "C18",
        "kernel_before_launch",
        g0().edit(E7, ts=us(1_149_000)).edit(E8, ts=us(1_149_000)).bytes(),
        accept(kernel_before_launch=1),
        delay(None),
    ),
    Case(
        "C19",
        "kernel_starts_inside_launch",
        g0().edit(E7, ts=us(1_155_000)).edit(E8, ts=us(1_155_000)).bytes(),
        accept(),
        delay(5_000),
    ),
    Case("C20", "clock_drift_rocm", rocm_drift().bytes(), accept(cpu_crossing=ANY), c20_links),
    Case("C21", "hosts_skewed_one_rank", skewed(400_000).bytes(), accept(), no_straggler),
    Case(
        "C01-torch",
        "int_us_whole_list",
        absolute_us(gn(3)).bytes("kineto"),
        accept(ts_precision=ANY),
        busy(150_000),
    ),
]
