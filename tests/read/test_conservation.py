"""Nothing is lost without a word: every record of the bytes is seen, whatever the damage and however
the bytes were cut. `conservation` has the rules; the full sweep tries many more places and sizes.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import reference_reader
from byte_scanner import count
from corpus.agreement import assert_agree
from corpus.build import LAYOUTS, Doc, g0
from corpus.cases import G0
from corpus.damage import BLOCKS, BYTES
from corpus.opening import open_at
from corpus.places import PUBLIC, RECORDED, recorded
from corpus.reading import read
from foretrace.base.errors import TraceError
from read.conservation import Sound, differing, faults, unlike
from sweep import FULL, examples

HERE = Path(__file__).resolve().parents[1]
KINDS = BYTES | BLOCKS
WRITTEN = [name for name in LAYOUTS if name not in ("json_lines", "old_order")]
SOUND = {name: Sound(unlike(6).bytes(name)) for name in WRITTEN}
OTHER = {name: Sound(unlike(6, seed=3).bytes(name)).events for name in WRITTEN}
RECORDINGS = sorted({*RECORDED.rglob("*.json.gz"), *HERE.rglob("recorded/*.json.gz")})
PUBLISHED = sorted(Path(PUBLIC).rglob("*.json.gz")) if PUBLIC else []


def check_trace(path: Path) -> None:
    """A sound trace: as many rows as records in its bytes, and no other answer at odd sizes."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    found = read(data)
    records = count(data)
    assert (len(found.rows), found.ledger.seen, found.ledger.skipped) == (records, records, 0)
    if FULL or len(data) < 1_000_000:
        assert not list(differing(data, found.shown(), (997, 8191, 70_001) if FULL else (8191,)))


@pytest.mark.sweep(6)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name[:-8])
def test_every_record_of_a_recorded_trace_is_seen(path: Path) -> None:
    check_trace(path)


@pytest.mark.public
def test_every_record_of_a_public_trace_is_seen() -> None:
    if not PUBLISHED:
        pytest.skip("FORETRACE_PUBLIC_TRACES names no folder of traces")
    for path in PUBLISHED:
        check_trace(path)


@pytest.mark.parametrize("layout", WRITTEN)
def test_a_sound_trace_is_read_the_same_at_every_size_of_chunk(layout: str) -> None:
    data = unlike(2).bytes(layout)
    truth = read(data).shown()
    assert truth["counted"] == (5, 0, 0)
    step = 1 if FULL else 4 * len(WRITTEN)  # each layout has its share of the sizes
    tried = range(1 + WRITTEN.index(layout) % step, len(data) + 2, step)
    assert [size for size in tried if read(data, size).shown() != truth] == []


@pytest.mark.parametrize("layout", WRITTEN)
def test_damage_costs_what_it_hit(layout: str) -> None:
    """Every kind of damage at every class of place, with a chunk that ends there and others."""
    sound, wrong = SOUND[layout], []
    for kind, make in list(KINDS.items())[
        0 if FULL else WRITTEN.index(layout) :: 1 if FULL else 10
    ]:
        chooser = random.Random(f"{layout} {kind}")
        for name, places in sound.places.items():
            for place in chooser.sample(places, min(len(places), 8 if FULL else 1)):
                edit = make(sound.data, place, OTHER[layout])
                to = max(edit.start - sound.scan.opens, 1)
                wide = [2, 16, 31, to + 1, edit.start, 331, 1000] if FULL else []
                found = faults(sound, edit, sorted({1, 7, 64, to, *wide}))
                wrong += [f"{name}: {edit}: {fault}" for fault in found]
    assert not wrong, f"{len(wrong)} faults:\n" + "\n".join(wrong[:25])


@pytest.mark.parametrize("written", ['5" op', '"], "x'])
@pytest.mark.parametrize("layout", WRITTEN)
def test_unescaped_quotes_lose_no_record_at_any_size(layout: str, written: str) -> None:
    """An unescaped quote in op names, as torch writes it: every record is counted at every size."""
    name, right = rb"\"quoted\" op", unlike(60).bytes(layout)
    data = right.replace(name, written.encode())
    truth = read(data)
    assert (truth.ledger.seen, truth.ledger.repaired, truth.ledger.skipped) == (63, 10, 0)
    escaped = right.replace(name, written.replace('"', r"\"").encode())
    assert truth.shown()["rows"] == read(escaped).shown()["rows"]
    sizes = (*range(1, len(data), 37 if FULL else 7999), len(data))
    assert [size for size in sizes if read(data, size).shown() != truth.shown()] == []


APART = """
import json, sys
from corpus.reading import read, read_apart
from foretrace.base.errors import TraceError
from read.conservation import difference

def said(read, *args):
    try:
        return read(*args).shown()
    except TraceError as error:
        return error.code

for name, data, *sizes in json.load(sys.stdin):
    alone, apart = said(read, bytes.fromhex(data)), said(read_apart, bytes.fromhex(data), *sizes)
    if alone != apart:
        print(name, sizes, difference(alone, apart))
"""


@pytest.mark.parametrize("layout", WRITTEN if FULL else ["pretty"])
def test_workers_change_nothing(layout: str) -> None:
    """Damaged traces cut into pieces of every size: workers answer as one process does."""
    right, other = Sound(unlike(30).bytes(layout)), Sound(unlike(30, seed=3).bytes(layout)).events
    chooser, inputs = random.Random(layout), []
    for kind, make in KINDS.items():
        for at in chooser.sample(range(right.scan.opens, right.scan.closes), 9 if FULL else 1):
            data = make(right.data, at, other).of(right.data).hex()
            inputs += [(f"{kind} {at}", data, piece, 200) for piece in (300, at + 1)]
    command = [sys.executable, "-c", APART]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, input=json.dumps(inputs), capture_output=True, text=True, env=env)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr[-2000:]


# ---- cut files


def check_cut(data: bytes, path: Path, doc: Doc) -> int:
    """Open a cut file: it holds every complete event and no other. Returns their number."""
    path.write_bytes(data)
    # each event ends in a brace two blanks from the left
    start = data.find(b'"traceEvents": [')
    complete = data.count(b"\n  }", start) if start >= 0 else 0
    if complete == 0:  # nothing to lose: refused, or opened with nothing in it
        with contextlib.suppress(TraceError):
            assert open_at(path).ledger.kept == 0
        return 0
    opened = open_at(path)
    good = opened.ledger.kept + opened.ledger.repaired
    assert good == complete
    assert opened.ledger.seen == good + opened.ledger.skipped
    assert opened.ledger.skipped <= 1, "at most the event that was cut"
    truth = reference_reader.read(Doc(doc.events[:complete], doc.header, {}).bytes())
    assert_agree(opened, truth)
    return good


def test_every_prefix(tmp_path: Path) -> None:
    """Every prefix of G0 opens with exactly its complete events; more bytes never mean fewer."""
    lengths = range(0, len(G0) + 1, 1 if FULL else 97)
    kept = [check_cut(G0[:length], tmp_path / "t.json", g0()) for length in lengths]
    assert kept == sorted(kept)


@pytest.mark.parametrize("name", ["mlp_compiled", "linear_eager_stack"])
def test_random_cuts_of_recorded_traces(name: str, tmp_path: Path) -> None:
    data, doc = gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()), recorded(name)
    chooser = random.Random(name)
    for _ in range(examples(20)):
        check_cut(data[: chooser.randrange(len(data))], tmp_path / "t.json", doc)
