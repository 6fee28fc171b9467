"""Whatever a number in a trace is, every number that is derived from it makes sense.

No negative time, no wrap, busy at most the span, shares within 0 and 1, no NaN or infinity, no rule
that fails. The values are drawn from a fixed seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corpus.build import Doc, Raw, complete
from corpus.builder import TraceBuilder
from corpus.opening import open_at, run
from corpus.places import examples

INT64 = 1 << 63
NUMBERS = (0, 1, -1, -5, 7, 2**31, 2**32 + 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64)
TEXTS = ("²", "٣", "--5", "-", "", "stream ²", "0x1f", "0x" + "f" * 40, "9" * 5000, "1_0", " 7 ")
TEXTS += ("sNaN", "nan", "inf", "-Infinity", "1e9999999", "1e99999999999999999999", "1e-400")
WRITTEN = ("1e9999999", "1e99999999999999999999", "-1e300", "1e-400", "1.8e19", "8.9e15", "9e18")
WRITTEN += ("1790857026000000.067", "1e14", "4611686018427387.903", "9223372036854775.807", "-0.0")
VALUES: list[Any] = [*NUMBERS, *TEXTS, *map(Raw, WRITTEN), 1.5, None, True, [], {}, [2**62, 2**62]]
LISTS: list[Any] = [[n] * 3 for n in NUMBERS[:-2]] + [[[n, n], [n, n]] for n in NUMBERS[:-2]]
HEADS = (
    "baseTimeNanoseconds",
    "deviceProperties",
    "distributedInfo",
    "schemaVersion",
    "with_stack",
)
COMMS = {
    "Collective name": "allreduce",
    "dtype": "Float",
    "In msg nelems": 1024,
    "Out msg nelems": 1024,
    "Group size": 8,
}


def document() -> Doc:
    """Two steps with every kind of event whose numbers are used."""
    builder = TraceBuilder(header={"distributedInfo": {"rank": 0, "world_size": 2}})
    for step in range(2):
        at = 1_000_000 * step
        builder.step(step, at, 900_000).region("forward", at + 1_000, 500_000)
        sizes, kinds = [[64, 64], [64, 64]], ["float", "float"]
        builder.op("aten::mm", at + 2_000, 90_000, dims=sizes, types=kinds)
        builder.launch(at + 5_000, 4_000)
        footprint = {"registers per thread": 32, "shared memory": 4096, "blocks per SM": 1.5}
        footprint |= {"warps per SM": 6.0, "est. achieved occupancy %": 40}
        builder.kernel("sgemm_128x64_nn", at + 20_000, 60_000, grid=(8, 8, 1), args=footprint)
        builder.op("aten::add", at + 100_000, 90_000, dims=sizes, types=kinds)
        builder.launch(at + 105_000, 4_000).kernel("vectorized_elementwise", at + 120_000, 9_000)
        builder.op("c10d::allreduce_", at + 200_000, 50_000).launch(at + 205_000, 4_000)
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        builder.kernel(name, at + 220_000, 30_000, stream=20, args=COMMS)
        builder.call("cudaMemcpyAsync", at + 300_000, 5_000).memcpy(at + 310_000, 8_000)
        builder.call("cudaMemsetAsync", at + 320_000, 5_000).memset(at + 330_000, 2_000)
        builder.frame("model.py(3): forward", at + 400_000, 10_000)
        builder.sync(at + 600_000, 50_000)
        memory = {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": 512}
        memory |= {"Total Allocated": 512, "Total Reserved": 2 << 20}
        event = complete("cpu_instant_event", "[memory]", 100, 100, at + 6_000, 0, memory)
        del event["dur"]
        builder.event(event | {"ph": "i"})
    return builder.doc()


def distorted(seed: int) -> Doc:
    """The document with one to five of its numbers replaced."""
    chance, doc = random.Random(seed), document()
    for _ in range(chance.randint(1, 5)):
        event = chance.choice(doc.events)
        inside = bool(event.get("args")) and chance.random() < 0.6
        fields = event["args"] if inside else event
        key = chance.choice([key for key in fields if key not in ("ph", "cat", "args")])
        value = chance.choice(LISTS if isinstance(fields[key], list) else VALUES)
        alike = chance.random() < 0.2  # the same in every event of its kind
        for other in doc.events if alike else [event]:
            place = other.get("args", {}) if inside else other
            if key in place and other.get("cat") == event.get("cat"):
                place[key] = value
    if chance.random() < 0.2:
        doc.head(**{chance.choice(HEADS): chance.choice(VALUES)})
    if chance.random() < 0.1:
        device = doc.header["deviceProperties"]
        if isinstance(device, list) and device and isinstance(device[0], dict):
            device[0][chance.choice(list(device[0]))] = chance.choice(VALUES)
    return doc


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def assert_sensible(doc: dict[str, Any]) -> None:
    json.dumps(doc, allow_nan=False)
    ledger = doc["ledger"]
    assert ledger["seen"] == ledger["kept"] + ledger["repaired"] + ledger["skipped"]
    assert not [row for row in doc["findings"] if row["state"] == "crashed"]
    totals = doc["totals"]
    if totals["gpu_busy_ns"] is not None:
        assert 0 <= totals["gpu_busy_ns"] <= totals["gpu_span_ns"] < INT64
    for path, number in numbers(doc):
        name = path.rsplit(".", 1)[-1]
        if name.endswith(("_ns", "_bytes", "flops", "count")) or name in ("time", "kernels"):
            assert number >= 0, path
        if name.endswith("_ns"):
            assert number < INT64, path
        if name.endswith(("share", "_mfu", "mbu")):
            assert 0 <= number <= 1.000001, path
        if name.endswith("percent"):
            assert number >= 0, path


@pytest.mark.parametrize("start", range(0, examples(60), 20))
def test_extreme_values(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + 20):
        doc = distorted(seed)
        path = tmp_path / f"{seed}.json"
        path.write_bytes(doc.bytes("minified"))
        opened = open_at(path)
        assert opened.ledger.seen == len(doc.events), seed
        assert_sensible(opened.doc)
        delays = opened.trace.kernels["delay_ns"].drop_nulls()
        assert not (delays < 0).any(), seed
        assert opened.trace.ops["self_ns"].min() is None or opened.trace.ops["self_ns"].min() >= 0
        if seed % 10 == 0:
            assert run("look", str(path), "--all").code == 0, seed


@pytest.mark.parametrize("digits", ["9" * 5_000, "9" * 30, "²", "٣"])
def test_names_with_odd_numbers(digits: str, tmp_path: Path) -> None:
    """`ProfilerStep#`, compiled regions, modules, frames and kernels with such a number."""
    builder = TraceBuilder().step(1, 0, 900_000)
    names = ("Torch-Compiled Region: {0}/{0}", "ProfilerStep#{0}", "nn.Module: Linear_{0}")
    for at, name in enumerate((*names, "model.py({0}): forward", "Optimizer.step#Adam{0}.step")):
        builder.region(name.format(digits), 10_000 * at, 9_000)
        builder.frame(name.format(digits), 10_000 * at + 1_000, 5_000)
    kernels = ("CatArrayBatchedCopy<OpaqueType<{0}u>, unsigned int, {0}, 64, 64>", "triton_poi_{0}")
    for at, name in enumerate((*kernels, "nvjet_hsh_{0}x{0}_64x{0}_v_bz_TNT", "sgemm_{0}x64_nn")):
        builder.op("aten::cat", 100_000 * at, 90_000, dims=[[8, 8]], types=["float"])
        builder.launch(100_000 * at + 2_000, 5_000)
        builder.kernel(name.format(digits), 100_000 * at + 10_000, 5_000)
    path = tmp_path / "t.json"
    path.write_bytes(builder.bytes("minified"))
    assert_sensible(open_at(path).doc)
    assert run("look", str(path), "--all").code == 0
