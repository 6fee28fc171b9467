"""What must stay true whatever the file looks like: other spellings, other cuts, one wrong byte,
wrong fields.

CI runs a fixed sample of the byte sweep and a few hundred mutations; `FORETRACE_SWEEP=full` runs
all of them.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foretrace
import reference_reader
from corpus.agreement import (
    assert_agree,
    fast_kernels,
    fast_links,
    fast_ops,
    fast_regions,
    fast_steps,
    fast_totals,
)
from corpus.build import BASE_NS, Doc, Raw, g0, gn, gz, us
from corpus.builder import TraceBuilder
from corpus.cases import G0, Opened
from corpus.opening import look_json, open_at
from corpus.places import FULL_SWEEP, RECORDED, examples
from foretrace.errors import TraceError

WRONG_BYTES = b'"\\{}[],:\0\x80\xff\n'
SAMPLE = 2_400
PARTS = 8  # the sweeps are split so that two workers share them


def numbers(opened: Opened) -> dict[str, Any]:
    """Everything a person would read off the trace."""
    return {
        "totals": fast_totals(opened),
        "steps": fast_steps(opened),
        "kernels": fast_kernels(opened),
        "ops": fast_ops(opened),
        "regions": fast_regions(opened),
        "links": [
            (name, dur, launch, delay, op, step)
            for name, _, dur, launch, delay, op, step in fast_links(opened)
        ],
        "notes": {note.code: note.count for note in opened.ledger.notes},
    }


# ---- the same trace, written otherwise
# ------------------------------------------------------------------------------


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


def load(name: str) -> Doc:
    """A recorded trace as a document, every number as it is written."""
    with gzip.open(RECORDED / f"{name}.json.gz") as file:
        header = json.load(file, parse_float=Raw)
    events = header.pop("traceEvents")
    tail = {"traceName": header.pop("traceName")}
    return Doc(events, header, tail)


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
    "gzip": lambda doc: gz(doc.bytes()),
    "split_members": split_members,
    "minified": lambda doc: doc.bytes("minified"),
    "lines": lambda doc: doc.bytes("lines"),
    "kineto": lambda doc: doc.bytes("kineto"),
    "old_order": lambda doc: doc.bytes("old_order"),
}
SUBJECTS: dict[str, Callable[[], Doc]] = {
    "mixed": mixed,
    "g20": lambda: gn(20),
    "mlp_eager_train": lambda: load("mlp_eager_train"),
    "linear_eager_stack": lambda: load("linear_eager_stack"),
}


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spelling_changes_nothing(subject: str, spelling: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(SUBJECTS[subject]().bytes())
    plain = numbers(open_at(path))
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


@pytest.mark.parametrize("factor", [2, 1000])
def test_scaling_times_scales_the_numbers(factor: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
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


def test_shift_moves_the_times(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(mixed().bytes())
    before = [kernel["ts_ns"] for kernel in open_at(path).kernels]
    path.write_bytes(shift(mixed()))
    assert [kernel["ts_ns"] - 123_456_789 for kernel in open_at(path).kernels] == before
    path.write_bytes(mixed().head(baseTimeNanoseconds=BASE_NS + 77).bytes())
    assert [kernel["ts_ns"] - 77 for kernel in open_at(path).kernels] == before


# ---- cuts
# -----------------------------------------------------------------------------------------------------------


def whole_events(data: bytes) -> int:
    """How many events of a pretty document are complete: each ends in a brace two blanks from the
    left.
    """
    return data.count(b"\n  }", data.find(b'"traceEvents": ['))


def truth_of(doc: Doc, events: int) -> reference_reader.Reading:
    return reference_reader.read(Doc(doc.events[:events], doc.header, {}).bytes())


def check_cut(
    data: bytes, path: Path, doc: Doc, truths: dict[int, reference_reader.Reading]
) -> int:
    """Open a cut file; every complete event is there and nothing else. Returns how many were kept."""
    path.write_bytes(data)
    complete = whole_events(data) if b'"traceEvents": [' in data else 0
    if complete == 0:  # nothing to lose: refused, or opened with nothing in it
        with contextlib.suppress(TraceError):
            assert open_at(path).ledger.kept == 0
        return 0
    opened = open_at(path)
    good = opened.ledger.kept + opened.ledger.repaired
    assert good == complete
    assert opened.ledger.seen == good + opened.ledger.skipped
    assert opened.ledger.skipped <= 1, "at most the event that was cut"
    assert_agree(opened, truths.setdefault(complete, truth_of(doc, complete)))
    return good


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_every_prefix(part: int, tmp_path: Path) -> None:
    """B06: every prefix of G0 opens with exactly its complete events, and more bytes never mean
    fewer events.
    """
    truths: dict[int, reference_reader.Reading] = {}
    size = len(G0) // PARTS + 1
    lengths = range(part * size, min(len(G0), part * size + size) + 1)
    kept = [check_cut(G0[:x], tmp_path / "t.json", g0(), truths) for x in lengths]
    assert kept == sorted(kept)


def test_prefix_exit_codes(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for x in range(0, len(G0), 97):
        path.write_bytes(G0[:x])
        ran = look_json(path)
        assert ran.code in (0, 3)
        assert "Traceback" not in ran.err


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name", ["mlp_compiled", "mlp_liger", "matmul_add_64_eager", "linear_eager_stack"]
)
def test_random_cuts_of_recorded_traces(name: str, tmp_path: Path) -> None:
    with gzip.open(RECORDED / f"{name}.json.gz") as file:
        data = file.read()
    doc, truths = load(name), {}
    chooser = random.Random(name)
    for _ in range(500 if FULL_SWEEP else 12):
        check_cut(data[: chooser.randrange(len(data))], tmp_path / "t.json", doc, truths)


# ---- one wrong byte
# -------------------------------------------------------------------------------------------------

EVENTS_FROM = G0.index(b'"traceEvents": [') + len(b'"traceEvents": [')
EVENTS_TO = G0.index(b"\n  ],")


def byte_changes() -> list[tuple[int, int]]:
    every = [(at, byte) for at in range(len(G0)) for byte in WRONG_BYTES if G0[at] != byte]
    return every if FULL_SWEEP else sorted(random.Random(3).sample(every, SAMPLE))


def well_formed(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def check_byte(data: bytes, at: int, path: Path, truth: dict[str, Any]) -> None:
    path.write_bytes(data)
    try:
        opened = open_at(path)
    except TraceError:
        assert not EVENTS_FROM < at < EVENTS_TO, (
            "damage inside one event never costs the whole trace"
        )
        return
    assert opened.ledger.seen == opened.ledger.kept + opened.ledger.repaired + opened.ledger.skipped
    if well_formed(data):
        assert_agree(opened, reference_reader.read(data))
        return
    if EVENTS_FROM < at < EVENTS_TO:
        assert opened.ledger.kept + opened.ledger.repaired >= 9, (
            "one wrong byte touches two events at most"
        )
    if numbers(opened) | {"notes": {}} != truth:
        assert opened.ledger.lost_data, "other numbers than the truth, and not a word about it"


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_every_wrong_byte(part: int, tmp_path: Path) -> None:
    """Each byte of G0 replaced by each of a dozen nasty ones: the truth, or another truth, or a
    word about the loss.
    """
    path = tmp_path / "t.json"
    path.write_bytes(G0)
    truth = numbers(open_at(path)) | {"notes": {}}
    failures = []
    for at, byte in byte_changes()[part::PARTS]:
        data = G0[:at] + bytes([byte]) + G0[at + 1 :]
        try:
            check_byte(data, at, path, truth)
        except reference_reader.NotATrace:
            failures.append(
                f"byte {at} -> {bytes([byte])!r}: opened, though it holds no list of events"
            )
        except Exception as error:  # anything at all is a finding; show them together
            failures.append(
                f"byte {at} -> {bytes([byte])!r}: {type(error).__name__}: "
                f"{str(error).splitlines()[:1]}"
            )
    assert not failures, f"{len(failures)} of them:\n" + "\n".join(failures[:25])


# ---- wrong fields
# ---------------------------------------------------------------------------------------------------

ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    7,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
    1.5,
    -0.0,
    1e300,
    "",
    "x",
    "7",
    "1200.000",
    "nan",
    "\0",
    "é" * 40,
    [],
    [1, [2]],
    {},
    {"a": {"b": 1}},
]


@st.composite
def mutations(draw: st.DrawFn, retype: bool) -> Doc:
    """G0 or G3 with one to four fields or events dropped, doubled, swapped, or given another type."""
    doc = copy.deepcopy(draw(st.sampled_from([g0(), gn(3)])))
    for _ in range(draw(st.integers(1, 4))):
        event = doc.events[draw(st.integers(0, len(doc.events) - 1))]
        inside = (
            draw(st.booleans()) and isinstance(event.get("args"), dict) and bool(event.get("args"))
        )
        fields = event["args"] if inside else event
        if not fields:
            continue
        key = draw(st.sampled_from(sorted(fields)))
        other = draw(st.sampled_from(sorted(fields)))
        change = draw(
            st.sampled_from(["drop", "copy", "swap", "retype"] if retype else ["drop", "copy"])
        )
        if change == "drop":
            del fields[key]
        elif (
            change == "copy" and event.get("name") != "ProfilerStep#2"
        ):  # of two equal steps either may hold the work
            doc.events.append(copy.deepcopy(event))
        elif change == "swap":
            fields[key], fields[other] = fields[other], fields[key]
        elif change == "retype":
            fields[key] = draw(st.sampled_from(ODD_VALUES))
    return doc


def hypothesis_settings(sample: int) -> settings:
    return settings(
        max_examples=examples(sample),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@hypothesis_settings(150)
@given(doc=mutations(retype=True))
def test_wrong_fields_never_break_it(doc: Doc, tmp_path: Path) -> None:
    """Whatever a field holds, the trace opens, every record is accounted for, and the JSON is JSON."""
    path = tmp_path / "t.json"
    path.write_bytes(doc.bytes())
    opened = open_at(path)
    assert opened.ledger.seen == len(doc.events)
    assert opened.ledger.seen == opened.ledger.kept + opened.ledger.repaired + opened.ledger.skipped
    json.dumps(opened.doc, allow_nan=False)


@hypothesis_settings(150)
@given(doc=mutations(retype=False))
def test_missing_and_doubled_fields_agree(doc: Doc, tmp_path: Path) -> None:
    """With fields missing and events doubled, the numbers are still those of the slow reader."""
    path = tmp_path / "t.json"
    path.write_bytes(doc.bytes())
    assert_agree(open_at(path), reference_reader.read(doc.bytes()))


MUCH = 1_000_000
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


@pytest.mark.parametrize("filler", FILLERS, ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_a_megabyte_of_one_thing(filler: bytes, place: str, tmp_path: Path) -> None:
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
