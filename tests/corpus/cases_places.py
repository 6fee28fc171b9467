"""Streams, threads, processes and devices."""

from __future__ import annotations

import copy

from corpus.build import DEVICE, E7, E8, Doc, Event, complete, g0, meta
from corpus.builder import TraceBuilder
from corpus.cases import Case, Opened, accept, both, is_t0
from corpus.cases_links import stream, with_launch

HANDLE = 94_573_829_104_720_129  # a stream handle that a double cannot hold


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


CASES = [
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
    ),
    Case("D33", "hopper_mixed_gpus", two_models().bytes(), accept(), d33_devices),
]
