"""Inputs made from a number: fields of every wrong type, damage anywhere, broken containers. The slow
reader says what must be read; nothing but a `TraceError` may be raised.
"""

from __future__ import annotations

import copy
import io
import random
import zipfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

import reference_reader
from corpus.agreement import assert_agree
from corpus.build import LAYOUTS, Doc, g0, gn, gz
from corpus.damage import BLOCKS, BYTES
from corpus.mutations import mutated, written
from corpus.opening import open_at
from corpus.reading import DUR, TS, Answer, Row, WholeLedger, answer, read
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read.bytestream import ByteStream, open_stream
from foretrace.read.kineto.assemble import assemble
from foretrace.read.kineto.document import read_document
from foretrace.read.run_record import read_run
from foretrace.read.tables import KINDS as NAMES
from read.conservation import REFUSED, Sound, difference, differing, faults, known, unlike
from sweep import examples

KINDS = list((BYTES | BLOCKS).values())
WRITTEN = [name for name in LAYOUTS if name != "json_lines"]
SOUND = [Sound(unlike(4, seed).bytes(name)) for seed, name in enumerate(WRITTEN)]
SIZES = (1, 3, 17, 64, 100)  # of chunks


def sweep(count: int, check: Callable[[int], list[str]]) -> None:
    """Check so many inputs; everything that is wrong is shown together."""
    wrong = []
    for number in range(count):
        try:
            wrong += [f"input {number}: {fault}" for fault in check(number)]
        except Exception as error:  # noqa: BLE001 - any error is a finding
            wrong.append(f"input {number}: {type(error).__name__}: {error}")
    assert not wrong, f"{len(wrong)} faults:\n" + "\n".join(wrong[:25])


# ---- fields


def test_fields_of_every_type_are_read_as_the_slow_reader_reads_them() -> None:
    sweep(examples(1500), check_fields)


def check_fields(number: int) -> list[str]:
    """Rows as the slow reader has them, at another size of chunk, and beside a broken record."""
    data = written(*mutated(number))
    try:
        seen, expected = reference_reader.as_written(data)
    except reference_reader.NotATrace:
        with pytest.raises(TraceError):
            read(data)
        return []
    try:
        found = read(data)
    except TraceError as error:
        return [f"refused: {error.code}"] if expected else []
    wrong = list(unlike_slow(found, seen, expected))
    if number % 2:
        return wrong + list(differing(data, found.shown(), [SIZES[number % len(SIZES)]]))
    return wrong + beside_a_broken_record(data, found)


def unlike_slow(found: Answer, seen: int, expected: list[Row]) -> Any:
    ledger = found.ledger
    counted = (ledger.seen, ledger.repaired, ledger.skipped)
    if counted != (seen, 0, seen - len(expected)):
        yield f"{counted} seen, repaired, skipped, but {seen} records, {len(expected)} events"
        return
    for row, slow in zip(map(known, found.rows), expected, strict=True):
        if row[:TS] != slow[:TS] or row[DUR + 1 :] != slow[DUR + 1 :]:
            yield f"{row} but the slow reader has {slow}"
        elif not all(map(same_time, row[TS : DUR + 1], slow[TS : DUR + 1])):
            yield f"times {row[TS : DUR + 1]} but the slow reader has {slow[TS : DUR + 1]}"


def same_time(fast: float | Fraction | None, slow: Decimal | None) -> bool:
    """To the nanosecond, as far as a float holds it."""
    if fast is None or slow is None or abs(fast) >= reference_reader.MOST_US:
        return slow is None and (fast is None or abs(fast) >= reference_reader.MOST_US)
    most = max(Fraction(1, 2000), abs(Fraction(slow)) / 10**15)
    return float(slow) == fast or abs(Fraction(fast) - Fraction(slow)) <= most


def beside_a_broken_record(data: bytes, found: Answer) -> list[str]:
    """A record reads the same where its neighbour must be read carefully."""
    at = data.rindex(b"]", 0, data.rfind(b"traceName") if b"traceName" in data else len(data))
    more = read(data[:at] + b', {"ph": }' + data[at:]).shown()["rows"]
    alone = found.shown()["rows"]
    pairs = zip(more, alone, strict=False)
    return [f"beside a broken record {one}, alone {two}" for one, two in pairs if one != two][:1]


# ---- sums

KIND_OF = {
    "op": ("cpu_op",),
    "annotation": ("user_annotation",),
    "call": ("cuda_runtime", "cuda_driver"),
    "kernel": ("kernel",),
    "memcpy": ("gpu_memcpy",),
    "memset": ("gpu_memset",),
    "python": ("python_function",),
}


def test_sums_of_durations_are_those_of_the_slow_reader() -> None:
    sweep(examples(400), check_sums)


def check_sums(number: int) -> list[str]:
    """The length of the events of each kind, to the nanosecond."""
    data = written(*mutated(number))
    ledger = WholeLedger()
    try:
        slow = reference_reader.ranges(data)
        stream = ByteStream("t.json", iter([data]), 0)
        events = assemble(read_document(stream, Limits(), ledger), ledger)["events"]
    except (TraceError, reference_reader.NotATrace):
        return []
    if {"time_outlier", "clock_mismatch", "ts_out_of_window"} & set(ledger.counts):
        return []  # which of them has a time is judged elsewhere
    sums = dict.fromkeys(NAMES, 0)
    for kind, dur in events.select("kind_id", "dur_ns").iter_rows():
        sums[NAMES[kind]] += dur or 0
    fast = {kind: sum(sums[name] for name in names) for kind, names in KIND_OF.items()}
    return [f"{kind}: {fast[kind]} / {slow[kind]} ns" for kind in fast if fast[kind] != slow[kind]]


def lacking(number: int) -> Doc:
    """G0 or G3 with one to four fields dropped or events doubled."""
    chance, doc = random.Random(number), (g0(), gn(3))[number % 2]
    for _ in range(chance.randint(1, 4)):
        event = chance.choice(doc.events)
        fields = chance.choice([event, event.get("args") or event])
        if fields and chance.random() < 0.5:
            del fields[chance.choice(sorted(fields))]
        elif event.get("name") != "ProfilerStep#2":  # of two equal steps either may hold the work
            doc.events.append(copy.deepcopy(event))
    return doc


def test_missing_and_doubled_fields_agree(tmp_path: Path) -> None:
    """With fields missing and events doubled, every number is still that of the slow reader."""
    path = tmp_path / "t.json"

    def check(number: int) -> list[str]:
        doc = lacking(number)
        path.write_bytes(doc.bytes())
        opened = open_at(path)
        assert opened.ledger.seen == len(doc.events)
        assert_agree(opened, reference_reader.read(doc.bytes()))
        return []

    sweep(examples(150), check)


def test_extreme_values_give_sensible_numbers(tmp_path: Path) -> None:
    """No total is negative, none leaves 64 bits, and no share is above 1."""
    path = tmp_path / "t.json"

    def check(number: int) -> list[str]:
        path.write_bytes(written(*mutated(10_000 + number)))
        try:
            opened = open_at(path)
        except TraceError:
            return []
        assert not [row for row in opened.doc["findings"] if row["state"] == "crashed"]
        totals = opened.totals
        if totals["gpu_busy_ns"] is not None:
            assert 0 <= totals["gpu_busy_ns"] <= totals["gpu_span_ns"]
        return [f"{name} is {value}" for name, value in numbers(opened.doc) if odd(name, value)]

    sweep(examples(100), check)


def numbers(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def odd(name: str, value: float) -> bool:
    if name.endswith(("share", "_mfu", "mbu")):
        return not 0 <= value <= 1.000001
    quantity = name.endswith(("_ns", "_bytes", "flops", "count", "percent"))
    return quantity and not 0 <= value < 1 << 63


# ---- damage


def test_damage_anywhere_costs_what_it_hit() -> None:
    sweep(examples(800), check_damage)


def check_damage(number: int) -> list[str]:
    """One damage anywhere: the rules of conservation."""
    chooser = random.Random(number)
    sound, other = chooser.sample(SOUND, 2)
    edit = chooser.choice(KINDS)(sound.data, chooser.randrange(len(sound.data)), other.events)
    if edit.of(sound.data) == sound.data:
        return []
    size = chooser.choice((*SIZES, max(edit.start - sound.scan.opens, 1)))
    return [f"{edit}: {fault}" for fault in faults(sound, edit, [size])]


def test_much_damage_is_counted() -> None:
    sweep(examples(400), check_much_damage)


def check_much_damage(number: int) -> list[str]:
    """Several damages at once: rows and ledger agree, and the size of chunks changes nothing."""
    chooser = random.Random(number)
    data, other = chooser.choice(SOUND).data, chooser.choice(SOUND).events
    for _ in range(chooser.randrange(2, 7)):
        edit = chooser.choice(KINDS)(data, chooser.randrange(len(data)), other)
        data = edit.of(data) or other
    try:
        found = read(data)
    except TraceError:
        return list(differing(data, REFUSED, [chooser.choice(SIZES)]))
    wrong = list(differing(data, found.shown(), [chooser.choice(SIZES)]))
    if len(found.rows) != found.ledger.seen - found.ledger.skipped:
        wrong.append(f"{len(found.rows)} rows of {found.ledger.seen}")
    return wrong


# ---- containers


def zipped(data: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("t.json", data)
    return archive.getvalue()


def zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACKERS = (
    gz,
    lambda data: gz(data[:900]) + gz(data[900:]),
    zstd,
    zipped,
    lambda data: gz(gz(data)),
)


def test_broken_containers_are_refused_or_read_as_far_as_they_go(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    sweep(examples(300), lambda number: check_container(number, tmp_path / "t.json.gz"))


def check_container(number: int, path: Path) -> list[str]:
    """What is read from a broken container is the beginning of what was packed, or it is noted."""
    chooser = random.Random(number)
    sound = chooser.choice(SOUND)
    data = chooser.choice(PACKERS)(sound.data)
    for _ in range(chooser.choice((0, 1, 1, 3))):
        edit = chooser.choice(KINDS)(data, chooser.randrange(len(data)), sound.data)
        data = edit.of(data) or b"\0"
    path.write_bytes(data)
    ledger = WholeLedger()
    try:
        stream = open_stream(str(path), Limits(), ledger)
        found = answer(read_document(stream, Limits(), ledger), ledger)
    except TraceError:
        return []
    sound_rows = read(sound.data).shown()["rows"]
    if found.shown()["rows"] != sound_rows and not ledger.freeze().lost_data:
        return [f"not a word about it: {difference(sound_rows, found.shown()['rows'])}"]
    return []


def test_a_broken_run_record_breaks_nothing(tmp_path: Path) -> None:
    """No file beside a trace raises, and no time of it is odd."""
    right = msgspec.json.encode(
        {
            "kind": "foretrace-run",
            "timing": {"wall_ns_per_call": 1234.5, "wall_spread": 0.01},
            "compile": {"seconds": 3.5},
            "device": {"name": "NVIDIA H200"},
        }
    )

    def check(number: int) -> list[str]:
        chooser = random.Random(number)
        edit = chooser.choice(KINDS)(right, chooser.randrange(len(right)), SOUND[0].data)
        (tmp_path / "t.run.json").write_bytes(edit.of(right))
        wall = read_run(str(tmp_path / "t.json.gz")).timing.wall_ns_per_call
        return [] if wall is None or 1 <= wall <= 1e18 else [f"{wall} ns per call"]

    sweep(examples(200), check)
