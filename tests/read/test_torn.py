"""Damage between and inside records: one test for each shape, with its count and its note."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corpus.reading import read
from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read.bytestream import ByteStream
from foretrace.read.kineto.document import read_document
from foretrace.read.kineto.records import CHUNK
from foretrace.read.ledger import LedgerBuilder

EVENT = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1.5,"dur":2}'


def listed(*records: bytes) -> bytes:
    return b'{"schemaVersion":1,"traceEvents":[' + b",".join(records) + b"]}"


def args(value: bytes) -> bytes:
    """Two sound events around one with an argument of this text."""
    return listed(EVENT, EVENT[:-1] + b',"args":{"a":' + value + b"}}", EVENT)


ZEROS = listed(EVENT, EVENT[:40] + bytes(4096) + EVENT[40:], EVENT, EVENT)
LISTS = listed(EVENT, EVENT)[:-1] + b',"traceEvents":[' + EVENT.replace(b'"a"', b'"two"') + b"]}"
OTHER = b'1.5,"dur":2},' + EVENT + b"," + EVENT + b"]}"
DEEPER = b'{"a":{"traceEvents":[1,2]},"b":"' + b"x" * 70_000 + b'",' + listed(EVENT)[1:]


@pytest.mark.parametrize(
    ("data", "counted", "notes"),
    [
        pytest.param(args(b"007"), (3, 1, 0), "number_repaired", id="leading zeros"),
        pytest.param(args(b"0x1f"), (3, 1, 0), "number_repaired", id="a hex number"),
        pytest.param(args(b".5"), (3, 1, 0), "number_repaired", id="no digit before the point"),
        pytest.param(args(b'{"b":1,}'), (3, 1, 0), "trailing_comma", id="a trailing comma"),
        pytest.param(args(b"[" + EVENT + b"," + EVENT + b"]"), (3, 0, 0), "", id="a nested list"),
        pytest.param(
            listed(EVENT, b"// rank 0\n" + EVENT), (2, 0, 0), "comment", id="a comment to the line's end"
        ),
        pytest.param(listed(EVENT, b"/* rank 0 */" + EVENT), (2, 0, 0), "comment", id="a comment"),
        pytest.param(
            listed(EVENT, b"/* rank 0 " + EVENT), (3, 0, 1), "event_unparsable", id="an open comment"
        ),
        pytest.param(listed(EVENT + EVENT), (2, 0, 0), "separator_missing", id="no comma"),
        pytest.param(
            listed(EVENT.replace(b'"a"', rb'"a\udc00b"')), (1, 0, 0), "lone_surrogate", id="surrogate"
        ),
        pytest.param(
            listed(EVENT).replace(b'"schemaVersion":1', b'"schemaVersion":"1"'),
            (1, 0, 0), "schema_version", id="another schema version",
        ),
        # a cut name swallows keys: that record is skipped, and no other
        pytest.param(
            listed(EVENT, EVENT.replace(b'"a"', b'"a'), EVENT), (3, 0, 1), "event_unparsable", id="a quote"
        ),
        # the halves around a block of zeros are never joined, and the bytes are noted
        pytest.param(ZEROS, (4, 0, 1), "bytes_unread event_unparsable", id="zeros"),
        # of two lists the last that is not empty counts
        pytest.param(LISTS, (3, 0, 2), "bytes_unread dup_key", id="two lists"),
        pytest.param(listed(EVENT) + b" the end", (1, 0, 0), "trailing_data", id="what follows"),
        pytest.param(
            listed(EVENT) * 2, (1, 0, 0), "bytes_unread trailing_data", id="another document"
        ),
        pytest.param(
            listed(EVENT) + OTHER, (3, 0, 0), "bytes_unread interleaved_writers", id="another writer"
        ),
        pytest.param(DEEPER, (1, 0, 0), "", id="a key deeper in the header"),
        pytest.param(listed(EVENT.replace(b"1.5", b"1" * 5_000)), (1, 0, 0), None, id="many digits"),
    ],
)  # fmt: skip
def test_shape(data: bytes, counted: tuple[int, int, int], notes: str | None) -> None:
    """Seen, repaired, skipped, and the notes; the same at every size of chunk."""
    found = read(data)
    assert (found.ledger.seen, found.ledger.repaired, found.ledger.skipped) == counted
    if notes is not None:
        assert dict(found.ledger.counts) == dict.fromkeys(notes.split(), 1)
    for size in (1, 7, 64, 300):
        assert read(data, size).shown() == found.shown()


def test_what_is_left_out_is_measured() -> None:
    unread = read(ZEROS).ledger.freeze().notes[0]
    assert unread.text.startswith(f"{4096 + len(EVENT) - 40:,} bytes")
    found = read(LISTS)
    assert [row[4] for row in found.rows] == ["two"]
    left = len(EVENT) * 2 + len(b',],"traceEvents":[')
    assert found.ledger.freeze().notes[0].text.startswith(f"{left} bytes were left out")


def test_a_list_of_other_records_is_refused_at_once() -> None:
    """4.4 MB of records without a phase: refused after the first of them."""
    taken: list[bytes] = []

    def blocks() -> Iterator[bytes]:
        for _ in range(100):
            taken.append(b'{"id": 7, "name": "bob"},' * 1800)
            yield (b"" if len(taken) > 1 else b"[") + taken[-1]

    with pytest.raises(TraceError, match="without a trace event"):
        read_document(ByteStream("t.json", blocks(), 0), Limits(), LedgerBuilder())
    assert sum(map(len, taken)) < 4 * CHUNK


@pytest.mark.parametrize("empties", [b"{}," * 3000, b"{},\n" * 30, b"{} {},,{},/*x*/,{}," * 9])
def test_a_run_of_empty_records_counts_as_its_records(empties: bytes) -> None:
    """A fast way through them: a record that cannot be read beside them makes no difference."""
    found = read(b'{"traceEvents":[' + empties + EVENT + b"]}").ledger
    assert found.skipped >= empties.count(b"{}")
    assert found.seen == found.skipped + 1
    assert found.counts["ts_missing"] == empties.count(b"{}")
