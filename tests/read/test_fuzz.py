"""A thousand fixed inputs, each made from its number: fields of every wrong type, damage anywhere,
broken containers and broken run records. The slow reader says what must be read; nothing but a
`TraceError` may be raised. The full sweep tries a hundred times as many.
"""

from __future__ import annotations

import contextlib
import io
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import reference_reader
from corpus.build import LAYOUTS, gz
from corpus.damage import BLOCKS, BYTES, Edit
from corpus.mutations import mutated, written
from corpus.reading import DUR, TS, Answer, Row, WholeLedger, answer, read
from foretrace.analyze.guess import guess_files
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError, UsageError
from foretrace.read.bytestream import open_stream
from foretrace.read.kineto.assemble import assemble
from foretrace.read.kineto.document import read_document
from foretrace.schema.run_record import read_run
from read.conservation import REFUSED, Sound, difference, differing, faults, known, unlike
from sweep import FULL

PARTS = 2  # so that two workers share them
TIMES = 100 if FULL else 1
KINDS = list((BYTES | BLOCKS).values())
WRITTEN = [name for name in LAYOUTS if name != "json_lines"]
SOUND = [Sound(unlike(4, seed).bytes(name)) for seed, name in enumerate(WRITTEN)]


def sweep(part: int, count: int, check: Callable[[int], list[str]]) -> None:
    """Check one part of `count` inputs; everything that is wrong is shown together."""
    found = []
    for number in range(part, count * TIMES, PARTS):
        try:
            found += [f"input {number}: {fault}" for fault in check(number)]
        except Exception as error:  # noqa: BLE001 - any error is a finding
            found.append(f"input {number}: {type(error).__name__}: {error}")
    assert not found, f"{len(found)} faults:\n" + "\n".join(found[:25])


# ---- fields


@pytest.mark.parametrize("part", range(PARTS))
def test_fields_of_every_type_are_read_as_the_slow_reader_reads_them(part: int) -> None:
    sweep(part, 500, check_fields)


def check_fields(number: int) -> list[str]:
    """Rows as the slow reader has them, at another size of chunk, and beside a broken record."""
    data = written(*mutated(number))
    try:
        seen, expected = reference_reader.as_written(data)
    except reference_reader.NotATrace:
        return [] if refused(data) else ["opened, though it holds no list of events"]
    try:
        found = read(data)
    except TraceError as error:
        return [f"refused: {error.code}"] if expected else []
    wrong = list(unlike_slow(found, seen, expected))
    chooser = random.Random(number)
    if number % 2:
        part = read(data, chooser.choice((1, 5, 64, 300))).shown()
        wrong += [] if part == found.shown() else [difference(found.shown(), part)]
    else:
        wrong += beside_a_broken_record(data, found)
    return wrong


def refused(data: bytes) -> bool:
    try:
        read(data)
    except TraceError:
        return True
    return False


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
    return float(slow) == fast or abs(Fraction(fast) - Fraction(slow)) <= max(
        Fraction(1, 2000), abs(Fraction(slow)) / 10**15
    )


def beside_a_broken_record(data: bytes, found: Answer) -> list[str]:
    """A record reads the same where its neighbour must be read carefully."""
    at = data.rindex(b"]", 0, data.rfind(b"traceName") if b"traceName" in data else len(data))
    more = read(data[:at] + b', {"ph": }' + data[at:])
    if more.shown()["rows"] == found.shown()["rows"]:
        return []
    rows = zip(more.shown()["rows"], found.shown()["rows"], strict=False)
    return [f"beside a broken record {one}, alone {two}" for one, two in rows if one != two][:1]


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


@pytest.mark.parametrize("part", range(PARTS))
def test_sums_of_durations_are_those_of_the_slow_reader(part: int) -> None:
    sweep(part, 60, check_sums)


def check_sums(number: int) -> list[str]:
    """The number and the length of the events of each kind, to the nanosecond."""
    from foretrace.schema.tables import KINDS as NAMES

    data = written(*mutated(number))
    ledger = WholeLedger()
    try:
        slow = reference_reader.ranges(data)
        stream = iter([data])
        document = read_document(_stream(stream), Limits(), ledger)
    except (TraceError, reference_reader.NotATrace):
        return []
    events = assemble(document, ledger)["events"]
    if {"time_outlier", "clock_mismatch", "ts_out_of_window"} & set(ledger.counts):
        return []  # which of them has a time is judged elsewhere
    sums: Counter[str] = Counter()
    for kind, dur in events.select("kind_id", "dur_ns").iter_rows():
        sums[NAMES[kind]] += dur or 0
    return [
        f"{kind}: {sum(sums[name] for name in names)} ns, but the slow reader has {slow[kind]} ns"
        for kind, names in KIND_OF.items()
        if sum(sums[name] for name in names) != slow[kind]
    ]


def _stream(blocks: Any) -> Any:
    from foretrace.read.bytestream import ByteStream

    return ByteStream("t.json", blocks, 0)


# ---- damage


@pytest.mark.parametrize("part", range(PARTS))
def test_damage_anywhere_costs_what_it_hit(part: int) -> None:
    sweep(part, 300, check_damage)


def check_damage(number: int) -> list[str]:
    """One damage anywhere: the rules of conservation."""
    chooser = random.Random(number)
    sound, other = chooser.sample(SOUND, 2)
    edit = chooser.choice(KINDS)(sound.data, chooser.randrange(len(sound.data)), other.events)
    if edit.of(sound.data) == sound.data:
        return []
    size = chooser.choice((1, 3, 17, 64, 100, max(edit.start - sound.scan.opens, 1)))
    return [f"{edit}: {fault}" for fault in faults(sound, edit, [size])]


@pytest.mark.parametrize("part", range(PARTS))
def test_much_damage_is_counted(part: int) -> None:
    sweep(part, 100, check_much_damage)


def check_much_damage(number: int) -> list[str]:
    """Several damages at once: rows and ledger agree, and the size of chunks changes nothing."""
    chooser = random.Random(number)
    data, other = chooser.choice(SOUND).data, chooser.choice(SOUND).events
    for _ in range(chooser.randrange(2, 7)):
        edit: Edit = chooser.choice(KINDS)(data, chooser.randrange(len(data)), other)
        data = edit.of(data) or other
    try:
        found = read(data)
    except TraceError:
        return list(differing(data, REFUSED, [chooser.choice((1, 3, 17, 64, 100))]))
    wrong = list(differing(data, found.shown(), [chooser.choice((1, 3, 17, 64, 100))]))
    if len(found.rows) != found.ledger.seen - found.ledger.skipped:
        wrong.append(f"{len(found.rows)} rows of {found.ledger.seen}")
    return wrong


# ---- containers and run records


@pytest.mark.parametrize("part", range(PARTS))
def test_broken_containers_are_refused_or_read_as_far_as_they_go(part: int, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    path = tmp_path / "t.json.gz"
    sweep(part, 50, lambda number: check_container(number, path))


def check_container(number: int, path: Path) -> list[str]:
    """What is read from a broken container is the beginning of what was packed, or it is noted."""
    chooser = random.Random(number)
    sound = chooser.choice(SOUND)
    data = chooser.choice(PACKERS)(sound.data)
    for _ in range(chooser.choice((1, 1, 3))):
        edit = chooser.choice(KINDS)(data, chooser.randrange(len(data)), sound.data)
        data = edit.of(data) or b"\0"
    path.write_bytes(data)
    ledger = WholeLedger()
    try:
        stream = open_stream(str(path), Limits(), ledger)
        found = answer(read_document(stream, Limits(), ledger), ledger)
    except TraceError:
        return []
    if found.shown()["rows"] != read(sound.data).shown()["rows"] and not ledger.freeze().lost_data:
        return ["other rows than were packed, and not a word about it"]
    return []


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
RUN = (
    b'{"kind":"foretrace-run","timing":{"wall_ns_per_call":1234.5,"wall_spread":0.01},'
    b'"compile":{"seconds":3.5},"rung":{"region":"call"},"device":{"name":"NVIDIA H200"},'
    b'"torch":{"version":"2.13.0"}}'
)


GUESSES = b"""schema = 1
[[guess]]
text = "in mlp_fwd: kernels == 5"
reason = "three matmuls, gelu, and the matmul of gate and up"
"""


@pytest.mark.parametrize("right", [RUN, GUESSES], ids=["run record", "guess file"])
def test_other_broken_files_break_nothing(right: bytes, tmp_path: Path) -> None:
    """A broken guess file is wrong usage. No file beside a trace raises, and no time of it is odd."""
    path, trace = tmp_path / "t.run.json", str(tmp_path / "t.json.gz")

    def check(number: int) -> list[str]:
        chooser = random.Random(number)
        edit = chooser.choice(KINDS)(right, chooser.randrange(len(right)), SOUND[0].data)
        path.write_bytes(edit.of(right))
        if right == GUESSES:
            with contextlib.suppress(UsageError):
                guess_files.load(path)
            return []
        wall = read_run(trace).timing.wall_ns_per_call
        return [] if wall is None or 1 <= wall <= 1e18 else [f"{wall} ns per call"]

    for part in range(PARTS):
        sweep(part, 50, check)
