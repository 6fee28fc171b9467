"""Damage between and inside records: one test for each shape, with its count and its note."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from corpus.opening import open_at
from corpus.reading import Answer, read
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read.bytestream import ByteStream
from foretrace.read.kineto.boundaries import CHUNK
from foretrace.read.kineto.document import read_document
from foretrace.schema.ledger import LedgerBuilder

EVENT = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1.5,"dur":2}'


def listed(*records: bytes, between: bytes = b",") -> bytes:
    return b'{"schemaVersion":1,"traceEvents":[' + between.join(records) + b"]}"


def counted(found: Answer) -> tuple[int, int, int]:
    return found.ledger.seen, found.ledger.repaired, found.ledger.skipped


def noted(data: bytes) -> tuple[tuple[int, int, int], dict[str, int]]:
    """Seen, repaired, skipped, and the notes; the same at every size of chunk."""
    found = read(data)
    for size in (1, 7, 64, 300):
        assert read(data, size).shown() == found.shown()
    return counted(found), dict(found.ledger.counts)


@pytest.mark.parametrize(
    ("written", "notes"),
    [
        (b"007", {"number_repaired": 1}),
        (b"0x1f", {"number_repaired": 1}),
        (b".5", {"number_repaired": 1}),
        (b"1.", {"number_repaired": 1}),
        (b"+5", {"number_repaired": 1}),
        (b'{"b":1,}', {"trailing_comma": 1}),
        (b"[1,]", {"trailing_comma": 1}),
    ],
)
def test_what_json_does_not_know_is_repaired(written: bytes, notes: dict[str, int]) -> None:
    """`007`, `0x1f` and `{"a":1,}` in an event cost nothing."""
    odd = EVENT[:-1] + b',"args":{"a":' + written + b"}}"
    assert noted(listed(EVENT, odd, EVENT)) == ((3, 1, 0), notes)


@pytest.mark.parametrize("digits", [20, 5_000, 200_000])
def test_a_time_of_many_digits_is_one_odd_time(digits: int) -> None:
    (seen, _, skipped), _ = noted(listed(EVENT, EVENT.replace(b"1.5", b"1" * digits)))
    assert (seen, skipped) == (2, 0)


@pytest.mark.parametrize("comment", [b"// rank 0\n", b"/* rank 0 */"])
def test_a_comment_between_events_is_stepped_over(comment: bytes) -> None:
    data = listed(EVENT, comment + EVENT, EVENT)
    assert noted(data) == ((3, 0, 0), {"comment": 1})


def test_a_comment_that_does_not_end_costs_no_event() -> None:
    (seen, _, skipped), notes = noted(listed(EVENT, b"/* rank 0 " + EVENT, EVENT))
    assert (seen - skipped, skipped) == (3, 1)
    assert notes == {"event_unparsable": 1}


def test_a_missing_comma_is_noted() -> None:
    data = listed(EVENT + EVENT, EVENT)
    assert noted(data) == ((3, 0, 0), {"separator_missing": 1})


@pytest.mark.parametrize("name", [rb"\ud83d", rb"a\udc00b", rb"\ud800\ud800\udc00"])
def test_half_a_surrogate_pair_is_noted(name: bytes) -> None:
    data = listed(EVENT.replace(b'"a"', b'"' + name + b'"'), EVENT)
    assert noted(data) == ((2, 0, 0), {"lone_surrogate": 1})
    assert "\ufffd" in read(data).rows[0][4]


@pytest.mark.parametrize("version", [b"2", b'"1"', b"null", b"1.5"])
def test_another_schema_version_is_noted(version: bytes) -> None:
    data = listed(EVENT).replace(b'"schemaVersion":1', b'"schemaVersion":' + version)
    assert noted(data) == ((1, 0, 0), {"schema_version": 1})


def test_a_name_without_its_last_quote_costs_one_record() -> None:
    """A cut name swallows keys: the record is skipped, and no other."""
    (seen, _, skipped), notes = noted(listed(EVENT, EVENT.replace(b'"a"', b'"a'), EVENT))
    assert (seen, skipped, notes) == (3, 1, {"event_unparsable": 1})


def test_zeros_part_two_records() -> None:
    """A block of zeros inside: its halves are never joined, and its bytes are noted."""
    data = listed(EVENT, EVENT[:40] + bytes(4096) + EVENT[40:], EVENT, EVENT)
    (seen, repaired, skipped), notes = noted(data)
    assert (seen, repaired, skipped) == (4, 0, 1)
    assert notes == {"event_unparsable": 1, "bytes_unread": 1}
    unread = read(data).ledger.freeze().notes[0]
    assert unread.text.startswith(f"{4096 + len(EVENT) - 40:,} bytes")


def test_of_two_lists_the_last_that_is_not_empty_counts() -> None:
    """Both lists of events are counted, one is kept, as the note says."""
    one, two = (EVENT.replace(b'"a"', b'"' + name + b'"') for name in (b"one", b"two"))
    data = listed(one, one)[:-1] + b',"traceEvents":[' + two + b"]}"
    assert noted(data) == ((3, 0, 2), {"dup_key": 1, "bytes_unread": 1})
    found = read(data)
    assert [row[4] for row in found.rows] == ["two"]
    assert "the last list that is not empty counts" in found.ledger.texts["dup_key"]
    left = len(one) * 2 + len(b',],"traceEvents":[')
    assert found.ledger.freeze().notes[0].text.startswith(f"{left} bytes were left out")
    assert counted(read(listed(one)[:-1] + b',"traceEvents":[]}')) == (1, 0, 0)


def test_a_list_of_other_records_is_refused_at_once() -> None:
    """4.4 MB of records without a phase: refused after the first of them."""
    taken: list[bytes] = []

    def blocks() -> Iterator[bytes]:
        for _ in range(100):
            taken.append(b'{"id": 7, "name": "bob"},' * 1800)
            yield (b"" if len(taken) > 1 else b"[") + taken[-1]

    stream = ByteStream("t.json", blocks(), 0)
    with pytest.raises(TraceError, match="without a trace event"):
        read_document(stream, Limits(), LedgerBuilder())
    assert sum(map(len, taken)) < 4 * CHUNK


def test_what_follows_a_document_is_data_loss_when_it_holds_records() -> None:
    """Bytes after the end: of another document, of another writer, or of nothing."""
    assert noted(listed(EVENT) + b" the end")[1] == {"trailing_data": 1}
    assert noted(listed(EVENT) * 2)[1] == {"trailing_data": 1, "bytes_unread": 1}
    other = b'1.5,"dur":2},' + EVENT + b"," + EVENT + b"]}"
    found, notes = noted(listed(EVENT) + other)
    assert found == (3, 0, 0)
    assert notes == {"interleaved_writers": 1, "bytes_unread": 1}


def test_a_nested_list_of_records_is_one_argument() -> None:
    """Sound JSON is read as JSON, whatever its arguments look like."""
    odd = EVENT[:-1] + b',"args":{"x":[' + b",".join([EVENT] * 9) + b"]}}"
    assert noted(listed(EVENT, odd, EVENT)) == ((3, 0, 0), {})


def test_a_key_deeper_in_the_header_is_not_the_list() -> None:
    data = b'{"a":{"traceEvents":[1,2]},' + b'"b":"' + b"x" * 70_000 + b'",' + listed(EVENT)[1:]
    assert noted(data)[0] == (1, 0, 0)


def test_legacy_format_is_noted(tmp_path: Path) -> None:
    """What the profiler before Kineto wrote is told by its one process."""
    record = b'{"name": "mm", "ph": "X", "ts": 1.5, "dur": 2.0, "tid": 1, "pid": "CPU functions"}'
    path = tmp_path / "t.json"
    path.write_bytes(b"[" + record + b", " + record + b"]")
    ledger = open_at(path).ledger
    assert (ledger.seen, ledger.count("legacy_format"), ledger.lost_data) == (2, 1, True)


Shape = Callable[[int], bytes]
SHAPES: dict[str, Shape] = {
    "empty records": lambda n: listed(EVENT, b"{}," * n),
    "empty records in a list": lambda n: b"[" + EVENT + b",{}" * n + b"]",
    "an unlisted first key": lambda n: listed(*[b'{"zz":1,"ph":"X","ts":1}'] * n),
    "records with junk behind them": lambda n: listed(*[EVENT + b"x"] * n, between=b""),
    "brackets before records": lambda n: listed(b'[{"ph":1},' * n),
    "lists that never end": lambda n: listed(b'{"ph":"X","a":[{"ph":1},' * n),
    "objects that never end": lambda n: listed(b'{"ph":{' * n),
    "a header that is no JSON": lambda n: b'{"a": @' + b"\n" * n,
    "lines in a broken header": lambda n: b'{"a": @' + b"\n" * n + listed(EVENT)[1:],
    "lines behind an object": lambda n: b'{"a":1}' + b"\n" * n,
    "strings that never end": lambda n: b"{" + b'\n"a": "x' * n + b',"traceEvents":[]}',
    "keys in keys": lambda n: b"{" + b'"a":{"traceEvents":[1]},' * n + listed(EVENT)[1:],
    "lists of events": lambda n: b'{"a":1' + b',"traceEvents":[]' * n + b"}",
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_work_grows_with_the_bytes(name: str) -> None:
    """Twice the bytes take twice the steps, counted in lines of the reader that run."""
    small, large = (steps(SHAPES[name](n)) for n in (300, 600))
    assert large <= 2.4 * small + 3000


def steps(data: bytes) -> int:
    """How many lines of the package run while `data` is read."""
    count = 0

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, event: str, arg: Any) -> Any:
        return line if "foretrace" in frame.f_code.co_filename else None

    sys.settrace(call)
    try:
        read(data)
    except TraceError:
        pass
    finally:
        sys.settrace(None)
    return count
