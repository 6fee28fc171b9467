"""Values that a trace should not hold, and where they go."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

import foretrace
import reference_reader
from corpus.agreement import assert_agree
from corpus.build import E4, E7, Doc, Event, Raw, complete, g0, gn
from corpus.builder import TraceBuilder
from corpus.opening import open_at, run
from foretrace.base.arrays import Bools, Ints
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.base.units import whole
from foretrace.model import opening
from foretrace.model.arguments import Signature
from foretrace.model.trace import Trace
from foretrace.read.kineto import careful
from foretrace.read.kineto.times import outliers
from foretrace.schema.ledger import Ledger
from foretrace.schema.tables import KIND
from foretrace.show.overview import look
from opened_traces import open_made
from sweep import FULL, examples, looped

EVENT = b'{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":5,"dur":1}'
MANY = b"{}," * 30


@pytest.mark.parametrize(
    "records",
    [
        MANY + EVENT,
        b"{},\n" * 30 + EVENT + b",{},{},{},,{},{},{}," + EVENT,
        b"{}" * 30 + EVENT,
        EVENT + b",{}" * 40,
        MANY + b"{} {},{},{},{},{}/*x*/,{},{}," + EVENT,
        MANY + b"@,{},{}," + EVENT,
        MANY * 3000 + EVENT,
    ],
)
def test_a_run_counts_as_its_records(
    records: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents":[' + records + b"]}")
    found = _ledger(path)
    monkeypatch.setattr(careful, "_EMPTIES", re.compile(rb"(?!)"))
    assert found == _ledger(path)
    assert found.skipped >= records.count(b"{}")


def _ledger(path: Path) -> Ledger:
    return opening.load(str(path), Limits(), use_kept=False, keep=False).ledger


SECOND = 10**9
HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND


def odd(host: Any, gpu: Any = (), length: int = 1_000, lanes: int = 4) -> Bools:
    """What is set aside of host events and then GPU events that start then."""
    start: Ints = np.array([*host, *gpu], np.int64)
    kind = np.array([KIND["cpu_op"]] * len(host) + [KIND["kernel"]] * len(gpu), np.uint8)
    every = np.ones(len(start), np.bool_)
    joined: Any = SimpleNamespace(kind=kind, ranged=every, lanes=lanes)
    return outliers(joined, start, np.full(len(start), length, np.int64), every)


def spread(count: int, start: int, step: int) -> list[int]:
    return [start + step * at for at in range(count)]


@pytest.mark.parametrize(
    ("host", "gpu"),
    [
        pytest.param([*spread(90, 0, 1000), 20 * HOUR], [], id="one call after 20 hours"),
        pytest.param(spread(50, 0, DAY), [], id="an event a day"),
        pytest.param(spread(90, 0, 1_000), spread(90, 50 * SECOND, 1_000), id="50 s late"),
        pytest.param([0], spread(90, 0, 59 * SECOND), id="a queue that outlasts its host"),
        pytest.param(spread(3, 0, HOUR), spread(3, SECOND, HOUR), id="pauses of an hour"),
        pytest.param(spread(9, 0, 1_000), spread(9, HOUR, 1_000), id="a clock of its own"),
        pytest.param([], spread(9, 0, HOUR), id="GPU events only"),
        pytest.param([], [], id="no event"),
    ],
)
def test_real_recordings_keep_every_time(host: list[int], gpu: list[int]) -> None:
    assert not odd(host, gpu).any()


@pytest.mark.parametrize(
    ("host", "gpu", "count"),
    [
        pytest.param([*spread(90, 0, 1000), 2 * 10**18], [], 1, id="an op of another epoch"),
        pytest.param(spread(90, 0, 1_000), [*spread(9, 0, 1000), HOUR], 1, id="a kernel"),
        pytest.param(spread(90, 0, 1_000), spread(50, 0, 9) + spread(40, HOUR, 9), 40, id="many"),
        pytest.param(spread(50, 0, 9) + spread(40, 4 * 10**18, 9), [], 40, id="two epochs"),
        pytest.param(spread(9, 0, 9), [*spread(8, HOUR, 9), 4 * 10**18], 1, id="on its own clock"),
    ],
)
def test_times_of_another_clock(host: list[int], gpu: list[int], count: int) -> None:
    assert odd(host, gpu).sum() == count


def test_sums_fit_64_bits() -> None:
    """Durations together, and the stretches of all threads and streams, stay below 2^62 ns."""
    many = odd([0] * 100_000, length=DAY)
    assert (~many).sum() * DAY < 1 << 62
    wide = odd(spread(400, 0, 100 * DAY), lanes=10_000)
    kept = np.array(spread(400, 0, 100 * DAY))[~wide]
    assert (int(kept.max()) - int(kept.min()) + DAY) * 10_000 < 1 << 62


@looped(
    ("text", "number"),
    [("7", 7), ("-7", -7), ("9223372036854775807", (1 << 63) - 1), ("9223372036854775808", None)]
    + [(text, None) for text in ("", "-", "--5", "²", "٣", "1_0", " 7", "0x7", "7.0", "9" * 5_000)],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole(text) == number


SIZES = pl.List(pl.List(pl.Int64))


def opened(folder: Path, op: Event, kernel: Event | None = None) -> Trace:
    return open_made(g0().args(E4, op).args(E7, kernel or {}), folder)


def signature(trace: Trace) -> Signature:
    op = int(trace.gpu.op[0])
    found = trace.arguments.of(op)
    assert found is not None
    return found


def test_tensors_and_tensor_lists(tmp_path: Path) -> None:
    lists = {
        "Input Dims": [[2, 3], [], [[4, 5], [6]], [[7]]],
        "Input Strides": [[3, 1], [], [[5, 1], [1]], [[1]]],
        "Input type": ["float", "Scalar", "TensorList", "TensorList"],
        "Concrete Inputs": ["", "1", "", ""],
    }
    trace = opened(tmp_path, lists)
    found = signature(trace)
    assert [found.dims, found.strides] == [lists["Input Dims"], lists["Input Strides"]]
    assert [found.types, found.concrete] == [lists["Input type"], lists["Concrete Inputs"]]
    assert found.tensors == [[2, 3]]
    (row,) = trace.table("shapes").select("dims", "list_dims").to_dicts()
    assert row["dims"] == [[2, 3], [], None, None]
    assert row["list_dims"] == [None, None, [[4, 5], [6]], [[7]]]


@pytest.mark.parametrize(
    ("dims", "read"),
    [
        ([[2, "3"], 4, None, [[1], "a"], [1 << 70], [1.5], [True], [8]], [None] * 7 + [[8]]),
        ("[2, 3]", []),
        ([], []),
    ],
)
def test_what_does_not_fit_is_null(tmp_path: Path, dims: Any, read: list[Any]) -> None:
    trace = opened(tmp_path, {"Input Dims": dims})
    assert signature(trace).dims == read
    assert trace.shapes.schema["dims"] == trace.ops.schema["dims"] == SIZES


@pytest.mark.parametrize(
    ("grid", "read"), [([4, 1, 1], [4, 1, 1]), ("grid(4,)", None), ([4, "1"], None), (7, None)]
)
def test_a_grid_is_a_list_of_numbers(tmp_path: Path, grid: Any, read: list[int] | None) -> None:
    trace = opened(tmp_path, {}, {"grid": grid})
    assert trace.kernels["grid"].to_list() == [read]
    assert trace.kernels["block"].to_list() == [[128, 1, 1]]


def test_calls_with_the_same_arguments_share_a_signature(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(g0().bytes().replace(b"[[8, 8], [8, 8]]", b"[[8,8],\t[8,8]]"))
    table = foretrace.open(path, cache=False).tables["signatures"]
    assert table["dims"].to_list() == [[[8, 8], [8, 8]]]


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
        key = chance.choice([key for key in fields if key != "args"])
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


def assert_sensible(trace: Trace) -> None:
    doc = msgspec.to_builtins(look(trace))
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


@pytest.mark.sweep(2)
@pytest.mark.parametrize("start", range(0, examples(60), 20))
def test_extreme_values(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + 20):
        doc = distorted(seed)
        path = tmp_path / f"{seed}.json"
        path.write_bytes(doc.bytes("minified"))
        opened = open_at(path)
        assert opened.ledger.seen == len(doc.events), seed
        assert_sensible(opened.trace)
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
    assert_sensible(open_at(path).trace)
    assert run("look", str(path), "--all").code == 0


def lacking(seed: int) -> Doc:
    """G0 or G3 with one to four fields dropped or events doubled."""
    chance, doc = random.Random(seed), [g0, gn][seed % 2](*[3] * (seed % 2))
    for _ in range(chance.randint(1, 4)):
        event = chance.choice(doc.events)
        fields = chance.choice([event, event.get("args") or event])
        if fields and chance.random() < 0.5:
            del fields[chance.choice(sorted(fields))]
        elif event.get("name") != "ProfilerStep#2":  # of two equal steps either may hold the work
            doc.events.append(copy.deepcopy(event))
    return doc


def test_missing_and_doubled_fields_agree(tmp_path: Path) -> None:
    """With fields missing and events doubled, the numbers are still those of the slow reader."""
    path = tmp_path / "t.json"
    for seed in range(examples(60)):
        doc = lacking(seed)
        path.write_bytes(doc.bytes())
        opened = open_at(path)
        assert opened.ledger.seen == len(doc.events), seed
        assert_agree(opened, reference_reader.read(doc.bytes()))


MUCH = 1_000_000 if FULL else 300_000
FILLERS = [
    b" ",
    b"\n",
    b",",
    b"}",
    b"{",
    b"[",
    b"]",
    b'"',
    b"\\",
    b'"a":',
    b"},{",
    b'{"ph":',
    b"} ,",
]
PLACES = {
    "before": 0,
    "events": b'"traceEvents": [',
    "between": b"  },",
    "args": b'"args": {',
    "name": b"aten:",
    "end": None,
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("filler", FILLERS, ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_much_of_one_thing(filler: bytes, place: str, tmp_path: Path) -> None:
    """Read once, not once for every byte of it: the hang guard of the suite is what would fail
    here.
    """
    data, mark = gn(2).bytes(), PLACES[place]
    at = (
        mark
        if isinstance(mark, int)
        else len(data)
        if mark is None
        else data.index(mark) + len(mark)
    )
    path = tmp_path / "t.json"
    path.write_bytes(data[:at] + filler * (MUCH // len(filler)) + data[at:])
    with contextlib.suppress(TraceError):
        ledger = foretrace.open(path, cache=False).ledger
        assert ledger.seen == ledger.kept + ledger.repaired + ledger.skipped
