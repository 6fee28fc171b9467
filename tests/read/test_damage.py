"""Traces cut anywhere or with one wrong byte: a fixed sample, all with `FORETRACE_SWEEP=full`."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

import reference_reader
from corpus.agreement import assert_agree, numbers
from corpus.build import Doc, g0
from corpus.cases import G0
from corpus.opening import open_at
from corpus.places import RECORDED, recorded
from foretrace.base.errors import TraceError
from sweep import FULL

WRONG_BYTES = b'"\\{}[],:\0\x80\xff\n'
SAMPLE = 64  # test_conservation and test_fuzz damage the same bytes in other ways
PARTS = 2  # the sweeps are split so that two workers share them


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
    """Open a cut file: it holds every complete event and no other. Returns their number."""
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


@pytest.mark.sweep(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_prefix(part: int, tmp_path: Path) -> None:
    """B06: every prefix of G0 (each 29th, but for the full sweep) opens with exactly its complete events, and more bytes never mean
    fewer events.
    """
    truths: dict[int, reference_reader.Reading] = {}
    size = len(G0) // PARTS + 1
    lengths = range(part * size, min(len(G0), part * size + size) + 1, 1 if FULL else 29)
    kept = [check_cut(G0[:x], tmp_path / "t.json", g0(), truths) for x in lengths]
    assert kept == sorted(kept)


@pytest.mark.parametrize(
    "name", ["mlp_compiled", "mlp_liger", "matmul_add_64_eager", "linear_eager_stack"]
)
def test_random_cuts_of_recorded_traces(name: str, tmp_path: Path) -> None:
    with gzip.open(RECORDED / f"{name}.json.gz") as file:
        data = file.read()
    doc, truths = recorded(name), {}
    chooser = random.Random(name)
    for _ in range(500 if FULL else 3):
        check_cut(data[: chooser.randrange(len(data))], tmp_path / "t.json", doc, truths)


EVENTS_FROM = G0.index(b'"traceEvents": [') + len(b'"traceEvents": [')
EVENTS_TO = G0.index(b"\n  ],")


def byte_changes() -> list[tuple[int, int]]:
    every = [(at, byte) for at in range(len(G0)) for byte in WRONG_BYTES if G0[at] != byte]
    return every if FULL else sorted(random.Random(3).sample(every, SAMPLE))


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


@pytest.mark.sweep(2)
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
        except Exception as error:  # noqa: BLE001 - any error is a finding; show them together
            failures.append(
                f"byte {at} -> {bytes([byte])!r}: {type(error).__name__}: "
                f"{str(error).splitlines()[:1]}"
            )
    assert not failures, f"{len(failures)} of them:\n" + "\n".join(failures[:25])
