"""Nothing is lost without a word: every record of the bytes is seen, whatever the damage and however
the bytes were cut. `conservation` has the rules; the full sweep tries many more places and sizes.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from byte_scanner import Record, count
from corpus.build import LAYOUTS, gz, interleave
from corpus.damage import BLOCKS, BYTES, Edit, zeros
from corpus.places import PUBLIC, RECORDED
from corpus.reading import NAME, Answer, WholeLedger, answer, read, sizes
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read.bytestream import open_stream
from foretrace.read.kineto.document import read_document
from read.conservation import Sound, difference, differing, faults, known, unlike
from sweep import FULL

HERE = Path(__file__).resolve().parents[1]
KINDS = BYTES | BLOCKS
WRITTEN = [name for name in LAYOUTS if name not in ("json_lines", "old_order")]
SOUND = {name: Sound(unlike(6).bytes(name)) for name in WRITTEN}
OTHER = {name: Sound(unlike(6, seed=3).bytes(name)).events for name in WRITTEN}


def edits(layout: str, kind: str) -> Iterator[Edit]:
    """One kind of damage in places of every class; all of them differ from the sound trace."""
    sound, chooser = SOUND[layout], random.Random(f"{layout} {kind}")
    for name, at in sound.places.items():
        for place in chooser.sample(at, min(len(at), 8 if FULL else 1)):
            edit = KINDS[kind](sound.data, place, OTHER[layout])
            if edit.of(sound.data) != sound.data:
                yield Edit(f"{name}: {edit.kind}", edit.start, edit.end, edit.new)


def near(sound: Sound, edit: Edit) -> list[int]:
    """Sizes of chunks, among them those whose edge is at the damage."""
    to = max(edit.start - sound.scan.opens, 1)
    wide = [2, 3, 16, 31, 64, 200, 331, 1000] if FULL else []
    return sorted({1, 7, 64, to, *([to + 1, edit.start, edit.start + 1, *wide] if FULL else [])})


def told(found: list[str]) -> None:
    assert not found, f"{len(found)} faults:\n" + "\n".join(found[:25])


def whole(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def check_trace(path: Path) -> None:
    """A sound trace: as many rows as records in its bytes, and no other answer at odd sizes."""
    data = whole(path)
    found = read(data)
    records = count(data)
    assert (len(found.rows), found.ledger.seen, found.ledger.skipped) == (records, records, 0)
    if FULL or len(data) < 1_000_000:
        told(list(differing(data, found.shown(), (997, 8191, 70_001) if FULL else (8191,))))


RECORDINGS = sorted({*RECORDED.rglob("*.json.gz"), *HERE.rglob("recorded/*.json.gz")})
PUBLISHED = sorted(Path(PUBLIC).rglob("*.json.gz")) if PUBLIC else [None]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name[:-8])
def test_every_record_of_a_recorded_trace_is_seen(path: Path) -> None:
    check_trace(path)


@pytest.mark.public
@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name[:-8] if path else "none")
def test_every_record_of_a_public_trace_is_seen(path: Path | None) -> None:
    if path is None:
        pytest.skip("FORETRACE_PUBLIC_TRACES names no folder of traces")
    check_trace(path)


@pytest.mark.parametrize("layout", WRITTEN)
def test_a_sound_trace_is_read_the_same_at_every_size_of_chunk(layout: str) -> None:
    data = unlike(2).bytes(layout)
    truth = read(data).shown()
    assert truth["counted"] == (5, 0, 0)
    step = 1 if FULL else len(WRITTEN)  # each layout has its share of the sizes
    tried = range(1 + WRITTEN.index(layout) % step, len(data) + 2, step)
    told([f"{size} bytes" for size in tried if read(data, size).shown() != truth])


@pytest.mark.parametrize("layout", WRITTEN)
@pytest.mark.parametrize("size", [40, 700] if not FULL else [1, 8, 40, 256, 700])
def test_zeros_are_read_the_same_at_every_size_of_chunk(layout: str, size: int) -> None:
    """A block of zeros inside: what is whole is kept, what lies between is counted, at all sizes."""
    sound = SOUND[layout]
    edit = zeros(size)(sound.data, sound.scan.records[2].start + 30, b"")
    step = 1 if FULL else 31
    told(faults(sound, edit, range(1, len(sound.data) + 2, step)))


# Every kind of damage in one layout, in turn.
TURNS = [
    (layout, kind)
    for number, kind in enumerate(KINDS)
    for at, layout in enumerate(WRITTEN)
    if FULL or (number - at) % len(WRITTEN) < 1
]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("layout", "kind"), TURNS)
def test_damage_costs_what_it_hit(layout: str, kind: str) -> None:
    """Every kind of damage at every class of place, with a chunk that ends there and others."""
    sound = SOUND[layout]
    told([
        f"{edit}: {fault}"
        for edit in edits(layout, kind)
        for fault in faults(sound, edit, near(sound, edit))
    ])  # fmt: skip


@pytest.mark.parametrize("written", ['5" op', '"quoted" op', '"], "x'])
@pytest.mark.parametrize("layout", WRITTEN)
def test_unescaped_quotes_lose_no_record_at_any_size(layout: str, written: str) -> None:
    """An unescaped quote in op names, as torch writes it: every record is counted at every size."""
    name, right = rb"\"quoted\" op", unlike(60).bytes(layout)
    data = right.replace(name, written.encode())
    truth = read(data)
    assert (truth.ledger.seen, truth.ledger.repaired, truth.ledger.skipped) == (63, 10, 0)
    escaped = right.replace(name, written.replace('"', r"\"").encode())
    assert truth.shown()["rows"] == read(escaped).shown()["rows"]
    step = 37 if FULL else 2999
    told([
        f"{size} bytes: {difference(truth.shown(), part)}"
        for size in (*range(1, len(data), step), len(data))
        if (part := read(data, size).shown()) != truth.shown()
    ])  # fmt: skip


APART = """
import json, sys
from corpus.reading import read, read_apart
from foretrace.base.errors import TraceError
from read.conservation import difference

def told(read, *args):
    try:
        return read(*args).shown()
    except TraceError as error:
        return error.code

for name, data, *sizes in json.load(sys.stdin):
    alone, apart = told(read, bytes.fromhex(data)), told(read_apart, bytes.fromhex(data), *sizes)
    if alone != apart:
        print(name, sizes, difference(alone, apart))
"""


@pytest.mark.sweep(2)
@pytest.mark.parametrize("layout", WRITTEN if FULL else ["pretty", "minified"])
def test_workers_change_nothing(layout: str) -> None:
    """Damaged traces cut into pieces of every size: workers answer as one process does."""
    right, other = Sound(unlike(30).bytes(layout)), Sound(unlike(30, seed=3).bytes(layout)).events
    chooser, inputs = random.Random(layout), []
    for kind, make in KINDS.items():
        for at in chooser.sample(range(right.scan.opens, right.scan.closes), 9 if FULL else 1):
            data = make(right.data, at, other).of(right.data).hex()
            inputs += [(f"{kind} {at}", data, piece, 200) for piece in (300, at + 1)]
    ran = subprocess.run(
        [sys.executable, "-c", APART],
        input=json.dumps(inputs),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    told(ran.stdout.splitlines())


@pytest.mark.sweep(2)
@pytest.mark.parametrize("block", [512, 8192])
def test_two_writers_in_one_file(block: int) -> None:
    """Two writers interleaved: a record that no edge of a block tore is kept. It may be lost only as
    the first of its block, or after the end of a document, and the ledger then names its bytes.
    """
    count = block // 16
    writers = [Sound(unlike(count, seed).bytes()) for seed in (0, 30)]
    data = interleave([writer.data for writer in writers], block)
    found = read(data)
    rows = Counter(known(row) for row in found.rows)
    ends = min(data.find(writer.data[writer.scan.closes :][:20]) for writer in writers)
    gone = []
    for writer in writers:
        for record, row in zip(writer.scan.records, writer.rows, strict=True):
            start = data.find(writer.data[record.start : record.end])
            after_another = data[:start].rstrip(b", \n").endswith(b"}")
            needless = start < ends and after_another
            if start >= 0 and not rows[row] and (needless or not named(found, start, record)):
                gone.append(f"{row[NAME]} at {start} of {len(data)}")
    told(gone)
    assert found.ledger.counts["interleaved_writers"] >= 1
    told(list(differing(data, found.shown(), (97, block - 1, block, block + 1))))


def named(found: Answer, start: int, record: Record) -> bool:
    end = start + record.end - record.start
    places = [(at, at + size) for _, at, size in found.ledger.every]
    return any(at <= start and end <= stop for at, stop in places)


def packed(data: bytes, folder: Path) -> Iterator[tuple[str, Path]]:
    """The same bytes in every container."""
    import zstandard

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("t.json", data)
    half = len(data) // 2
    forms = {
        "plain": data,
        "gzip": gz(data),
        "gzip in two members": gz(data[:half]) + gz(data[half:]),
        "zstd": zstandard.ZstdCompressor().compress(data),
        "zip": archive.getvalue(),
    }
    for name, content in forms.items():
        path = folder / name
        path.write_bytes(content)
        yield name, path


def opened(path: str) -> Any:
    """The answer through containers, or the code of the error."""
    ledger = WholeLedger()
    try:
        stream = open_stream(path, Limits(), ledger)
        found: Answer = answer(read_document(stream, Limits(), ledger), ledger)
    except TraceError as error:
        return error.code
    return found.shown()


class Pipe(io.BytesIO):
    """Standard input: a pipe gives a few bytes at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 100))


@pytest.mark.parametrize("layout", WRITTEN)
def test_the_container_changes_nothing(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain, packed and piped, sound and damaged, at the usual size of block and at odd ones."""
    pytest.importorskip("zstandard")
    sound, found = SOUND[layout], []
    for kind in ("zeros", "twice", "remove", "cut", "quote"):
        edit = KINDS[kind](sound.data, sound.scan.records[3].start + 21, OTHER[layout])
        data = edit.of(sound.data)
        truth = read(data).shown()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(data)))
        answers = [("stdin", opened("-"))]
        for name, path in packed(data, tmp_path):
            answers.append((name, opened(str(path))))
            with sizes(97):
                answers.append((f"{name} in 97 bytes", opened(str(path))))
        found += [
            f"{kind}, {name}: {difference(truth, part)}" for name, part in answers if part != truth
        ]
    told(found)
