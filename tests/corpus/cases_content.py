"""Content that is missing or unknown: steps, names, categories, ranks."""

from __future__ import annotations

from typing import Any

from corpus.build import E3, E7, E9, Doc, Event, complete, g0, gn
from corpus.builder import TraceBuilder
from corpus.cases import Case, Opened, accept, both, gpu_is_t0, is_t0, kernel_names
from corpus.cases_writers import phase, phases


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


CASES = [
    Case("E10", "gpu_only", gpu_only().bytes(), accept(kernel_unlinked=4, no_steps=1), e10_tables),
    Case("E11", "no_steps", no_steps().bytes(), accept(no_steps=1), gpu_is_t0),
    Case("E12", "steps_gap_dup", steps(3, 3, 4, 6).bytes(), accept(step_repeated=1), e12_steps),
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
        accept(name_missing=1),
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
        accept(name_missing=1),
        both(is_t0, kernel_names("(empty)")),
    ),
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
]
