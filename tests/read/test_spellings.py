"""The same trace, written otherwise, gives the same numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from corpus.agreement import fast_ops, fast_totals, numbers
from corpus.build import Doc, Raw, gz, us
from corpus.builder import TraceBuilder
from corpus.opening import open_at
from corpus.places import recorded


def mixed() -> Doc:
    """A bit of everything: two threads, a graph, copies, a sync, nested ops, regions, two devices,
    two steps.
    """
    builder = TraceBuilder()
    for i in range(4):
        at = 1_000_000 * i
        (
            builder.step(i + 1, at, 900_000)
            .region("forward", at + 10_000, 500_000)
            .op("aten::linear", at + 20_000, 300_000, dims=[[8, 8], [8, 8]])
            .op("aten::mm", at + 30_000, 200_000)
            .launch(at + 40_000, 5_000)
            .kernel("gemm", at + 60_000, 40_003)
            .op("aten::add", at + 350_000, 50_000)
            .launch(at + 360_000, 5_000)
            .kernel("add", at + 370_000, 10_001, stream=20)
            .op("backward", at + 600_000, 100_000, tid=101)
            .graph_launch(at + 610_000, 9_000, tid=101)
        )
        for node in range(5):
            builder.kernel(f"node{node}", at + 650_000 + 7_000 * node, 8_000, device=1)
        (
            builder.call("cudaMemcpyAsync", at + 700_000, 5_000)
            .memcpy(at + 710_000, 3_000)
            .call("cudaMemsetAsync", at + 720_000, 5_000)
            .memset(at + 730_000, 1_000)
            .sync(at + 750_000, 90_000)
        )
    return builder.doc()


def shuffle(doc: Doc) -> bytes:
    random.Random(11).shuffle(doc.events)
    return doc.bytes()


def indent(doc: Doc) -> bytes:
    return json.dumps(json.loads(doc.bytes()), indent=7).encode()


def split_members(doc: Doc) -> bytes:
    data = doc.bytes()
    cuts = [0, 1, 17, len(data) // 3, len(data) // 2, len(data) - 2, len(data)]
    return b"".join(gz(data[a:b]) for a, b in pairwise(cuts))


def unknown_keys(doc: Doc) -> bytes:
    for i, event in enumerate(doc.events):
        event[f"future{i % 3}"] = {"deep": [i, None, "x"]}
        if isinstance(event.get("args"), dict):
            event["args"] |= {"future arg": [1, {"a": "b"}]}
    return doc.head(futureHeader={"a": [1, 2]}).bytes()


def moved(value: Any, by_ns: int) -> Raw:
    return us(int(Decimal(value) * 1000) + by_ns)


def shift(doc: Doc) -> bytes:
    for event in doc.events:
        if "ts" in event:
            event["ts"] = moved(event["ts"], 123_456_789)
    return doc.bytes()


def rename_pids(doc: Doc) -> bytes:
    """Every host process gets another number; a device keeps its own, since that is its name."""
    hosts = {
        event["pid"]
        for event in doc.events
        if event.get("cat") in ("cpu_op", "user_annotation", "cuda_runtime")
    }
    for event in doc.events:
        if event["pid"] in hosts:
            event["pid"] += 70_000
    return doc.bytes()


SPELLINGS: dict[str, Callable[[Doc], bytes]] = {
    "shuffle": shuffle,
    "indent": indent,
    "unknown_keys": unknown_keys,
    "shift": shift,
    "rename_pids": rename_pids,
    "split_members": split_members,
    "minified": lambda doc: doc.bytes("minified"),
    "old_order": lambda doc: doc.bytes("old_order"),
}
SUBJECTS: dict[str, Callable[[], Doc]] = {
    "mixed": mixed,
    "linear_eager_stack": lambda: recorded("linear_eager_stack"),
}


@cache
def plain_numbers(subject: str, folder: Path) -> dict[str, Any]:
    """The numbers of a subject as it is usually written, read once in a process."""
    path = folder / f"{subject}.json"
    path.write_bytes(SUBJECTS[subject]().bytes())
    return numbers(open_at(path))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_spelling_changes_nothing(
    subject: str, spelling: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path / "t.json"
    plain = plain_numbers(subject, tmp_path_factory.getbasetemp())
    path.write_bytes(SPELLINGS[spelling](SUBJECTS[subject]()))
    assert numbers(open_at(path)) == plain


def test_mixed_trace_has_these_numbers(tmp_path: Path) -> None:
    """The numbers of the mixed trace, worked out by hand: so that agreement is agreement on
    something.
    """
    path = tmp_path / "t.json"
    path.write_bytes(mixed().bytes())
    opened = open_at(path)
    assert fast_totals(opened) == {
        "kernels": 28,
        "memcpys": 4,
        "memsets": 4,
        "launches": 12,
        "syncs": 4,
        "cpu_ops": 16,
        # device 0: two kernels, a copy and a set, apart; device 1: five kernels of 8 us, 7 us apart
        "gpu_busy_ns": 4 * (40_003 + 10_001 + 3_000 + 1_000) + 4 * 36_000,
        "gpu_span_ns": (3_000_000 + 731_000 - 60_000) + (3_000_000 + 36_000),
    }
    step = opened.doc["steps"][0]
    assert (step["kernels"], step["memcpys"], step["memsets"], step["cpu_ns"]) == (7, 1, 1, 900_000)
    assert [opened.op(f"aten::{name}")["self_cpu_ns"] for name in ("linear", "mm")] == [
        4 * 100_000,
        4 * 195_000,
    ]
    region = opened.doc["regions"][0]
    assert (region["name"], region["count"], region["kernels_per_call"]) == ("forward", 4, 2)
    assert opened.ledger.count("stream_overlap") == 16


def test_scaling_times_scales_the_numbers(tmp_path: Path) -> None:
    factor, path = 1000, tmp_path / "t.json"
    path.write_bytes(mixed().bytes())
    plain = open_at(path)
    doc = mixed()
    for event in doc.events:
        for key in {"ts", "dur"} & set(event):
            event[key] = us(int(Decimal(event[key]) * 1000) * factor)
    path.write_bytes(doc.bytes())
    scaled = open_at(path)
    assert scaled.totals["gpu_busy_ns"] == factor * plain.totals["gpu_busy_ns"]
    assert scaled.totals["gpu_span_ns"] == factor * plain.totals["gpu_span_ns"]
    assert scaled.totals["kernels"] == plain.totals["kernels"]
    for big, small in zip(scaled.doc["steps"], plain.doc["steps"], strict=True):
        for key in ("cpu_ns", "gpu_busy_ns", "gpu_idle_ns"):
            assert big[key] == factor * small[key]
    assert fast_ops(scaled) == {
        name: {key: value * (1 if key == "count" else factor) for key, value in row.items()}
        for name, row in fast_ops(plain).items()
    }
