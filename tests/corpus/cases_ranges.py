"""Ranges without an end, nested ranges, times of events."""

from __future__ import annotations

import random
from typing import Any

from corpus.build import E4, E7, E9, Doc, Event, complete, g0, gn, us
from corpus.builder import TraceBuilder
from corpus.cases import G0, Case, Opened, accept, gpu_is_t0, gpu_time_unknown, is_t0
from corpus.cases_clocks import busy


def no_dur(doc: Doc) -> Doc:
    return doc.drop(E4, "dur")


def c10_numbers(opened: Opened) -> None:
    # Without a length, aten::mm is no range that can hold the launch: the kernel has no op. It
    # still counts as an op.
    gpu_is_t0(opened)
    assert opened.totals["cpu_ops"] == 1
    assert opened.op("aten::mm")["total_cpu_ns"] == 0


def short_kernels(n: int, dur_ns: int, at_ns: int) -> Doc:
    builder = TraceBuilder().step(1, 0, n * 2_000)
    for i in range(n):
        builder.launch(i * 2_000, 100).kernel("tiny", i * 2_000 + at_ns, dur_ns)
    return builder.doc()


def shuffled() -> bytes:
    doc = gn(200)
    random.Random(7).shuffle(doc.events)
    return doc.bytes()


def same_start() -> Doc:
    return (
        TraceBuilder()
        .step(2, 0, 1_000_000)
        .op("short", 100_000, 200_000)
        .op("long", 100_000, 200_001)
        .launch(150_000, 10_000)
        .kernel("sgemm", 200_000, 50_000)
    ).doc()


def c26_tree(opened: Opened) -> None:
    """Of two ranges that start together the longer holds the shorter, whatever their order in the
    file.
    """
    events = {event["id"]: event for event in opened.events}
    assert events[opened.named("short")["parent"]]["name"] == "long"
    assert opened.op("long")["self_cpu_ns"] == 1
    assert opened.kernels[0]["op_name"] == "short"


def equal_ranges() -> Doc:
    """Two ranges equal to the nanosecond, as whole microseconds often give them; the inner one was
    begun second.
    """
    return (
        TraceBuilder()
        .step(2, 0, 1_000_000)
        .op("z_outer", 100_000, 200_000)
        .op("a_inner", 100_000, 200_000)
        .launch(150_000, 10_000)
        .kernel("sgemm", 200_000, 50_000)
    ).doc()


def c26_equal(opened: Opened) -> None:
    assert (opened.op("z_outer")["self_cpu_ns"], opened.op("a_inner")["self_cpu_ns"]) == (
        0,
        190_000,
    )
    assert opened.kernels[0]["op_name"] == "a_inner"


def backwards(doc: Doc) -> Doc:
    doc.events.reverse()
    return doc


def memory(ph: str, args: Event, **fields: Any) -> Event:
    return (
        {
            "ph": ph,
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "pid": 100,
            "tid": 100,
            "ts": us(1_101_000),
        }
        | fields
        | {
            "args": {"Device Type": 1, "Device Id": 0, "Addr": 140_000_000_000_000, "Bytes": 512}
            | args
        }
    )


def c28_numbers(opened: Opened) -> None:
    is_t0(opened)
    assert opened.op("aten::mm") == opened.op("aten::mm") | {
        "total_cpu_ns": 200_000,
        "self_cpu_ns": 190_000,
    }


def unfinished() -> Doc:
    return g0().add(
        complete(
            "user_annotation",
            "open_range",
            100,
            100,
            1_400_000,
            500_000,
            {"External id": 5, "finished": False},
        )
    )


CASES = [
    Case(
        "C09",
        "ts_missing",
        g0().drop(E7, "ts").bytes(),
        accept(good=11, seen=11, ts_missing=1),
        gpu_time_unknown,
    ),
    Case(
        "C09-null",
        "ts_null",
        g0().edit(E7, ts=None).bytes(),
        accept(good=11, seen=11, ts_missing=1),
        gpu_time_unknown,
    ),
    Case(
        "C10",
        "dur_missing",
        no_dur(g0()).bytes(),
        accept(good=11, seen=11, dur_missing=1),
        c10_numbers,
    ),
    Case(
        "C11",
        "dur_negative",
        g0().edit(E7, dur=us(-5_000)).bytes(),
        accept(good=11, seen=11, dur_negative=1),
        gpu_time_unknown,
    ),
    Case(
        "C23",
        "sub_us_kernels",
        lambda: short_kernels(10_000, 500, 200).bytes(),
        accept(),
        busy(5_000_000),
    ),
    Case(
        "C24-small",
        "sum_precision_scaled",
        lambda: short_kernels(5_000, 1, 1_003).bytes("minified"),
        accept(),
        busy(5_000),
    ),
    Case("C25", "unsorted", shuffled, accept(), None, same_as=lambda: gn(200).bytes()),
    Case("C26", "same_ts_nesting", same_start().bytes(), accept(), c26_tree),
    Case("C26-equal", "equal_ranges", equal_ranges().bytes(), accept(), c26_equal),
    Case(
        "C26-back", "equal_ranges_backwards", backwards(equal_ranges()).bytes(), accept(), c26_equal
    ),
    Case(
        "C28",
        "memory_as_X",
        g0().add(memory("X", {}, dur=us(10_774_627))).bytes(),
        accept(),
        c28_numbers,
    ),
    Case("C29", "unfinished_annotation", unfinished().bytes(), accept(unfinished_event=1)),
    Case(
        "C30",
        "finished_false_on_memory",
        g0().add(*(memory("i", {"finished": False}, s="t") for _ in range(3))).bytes(),
        accept(),
    ),
    Case("C31", "gpu_annotation_plus_2ns", G0, accept()),
    Case("C31-wide", "gpu_annotation_wide", g0().edit(E9, dur=us(400_000)).bytes(), accept()),
]
