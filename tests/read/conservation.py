"""What must hold for a damaged trace, whatever the damage and however the bytes were cut.

A reader knows a record by its own bytes and by the brace that ends the record before it. So:

*   a record whose bytes are whole is kept exactly as the sound trace has it, in its order; only
    where the damage hit the end of the record before it, or stands between the two, may it be lost;
*   a record that is not kept lies in a place that the ledger names: of a skipped record, of
    `bytes_unread`, or of a record whose quoting was repaired;
*   no kept record has fields of two records, unless its bytes are one sound object;
*   rows and ledger agree: `seen = rows + skipped`;
*   what is no sound JSON is noted, so that `--strict` fails;
*   a trace is refused only where the damage hit its first bytes or the key of its events;
*   all of this is the same at every size of chunk, window and block.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from byte_scanner import Record, Scan, balanced, places, scan
from corpus.build import Doc, complete, flow, instant, meta
from corpus.damage import Edit
from corpus.reading import CORRELATION, DUR, EXTERNAL, NAME, TS, Answer, Row, read
from foretrace.base.errors import TraceError
from foretrace.read.tables import NONE

OWN = (NAME, TS, DUR, CORRELATION, EXTERNAL)  # no two records of `unlike` share one of these
REFUSED = "refused"
NAMES = (
    "aten::mm",
    'a "quoted" op',
    "C:\\temp\\new",
    "h\u00e9llo \u4e16",
    "void k<int, 4>(T*)",
    "a\tb",
)


def unlike(count: int, seed: int = 0) -> Doc:
    """A trace in which every record can be told by each of its names, times and ids."""
    events: list[Any] = [meta("process_name", 100 + seed, 0, {"name": "python"})]
    for i in range(count):
        number = 1000 * seed + i
        args = {
            "External id": 7000 + number,
            "Input Dims": [[8 + i, 8], []],
            "Input type": ["float", ""],
            "Call stack": "a.py(3): f;\nb.py(5): g",
            "correlation": 500_000 + number,
        }
        name = f"{NAMES[i % len(NAMES)]} {number:04}"
        cat = ("cpu_op", "kernel", "cuda_runtime")[i % 3]
        times = (1_000_000 + 3_217 * number, 20_001 + 13 * number)
        events.append(complete(cat, name, 100, 100 + i % 2, *times, args))
    events.append(flow("s", 900_000 + seed, 100, 100, 1_100_000 + seed))
    events.append(instant(f"Record Window End {seed}", "", "", 2_100_000 + seed))
    return Doc(events)


@dataclass(frozen=True)
class Sound:
    """A sound trace: its bytes, its records, and the rows the reader makes of them."""

    data: bytes

    @cached_property
    def scan(self) -> Scan:
        return scan(self.data)

    @property
    def events(self) -> bytes:
        """The inside of the list of events."""
        return self.data[self.scan.opens : self.scan.closes]

    @cached_property
    def places(self) -> dict[str, list[int]]:
        return places(self.data, self.scan)

    @cached_property
    def rows(self) -> list[Row]:
        rows = read(self.data).rows
        assert len(rows) == len(self.scan.records)
        return [known(row) for row in rows]

    @cached_property
    def owners(self) -> list[dict[Any, int]]:
        """For each field: its values that one record alone has -> that record."""
        fields = range(len(self.rows[0]))
        counts = [Counter(row[field] for row in self.rows) for field in fields]
        return [
            {
                row[field]: at
                for at, row in enumerate(self.rows)
                if row[field] is not None and counts[field][row[field]] == 1
            }
            for field in fields
        ]

    def of(self, row: Row, fields: Iterable[int] = range(9)) -> set[int]:
        """The records that a row has fields of."""
        return {self.owners[at][row[at]] for at in fields if row[at] in self.owners[at]}

    @cached_property
    def key_start(self) -> int:
        """Where the key of the events starts; before everything where there is none."""
        return self.data.rfind(b'"traceEvents"', 0, self.scan.opens)


def known(row: Row) -> Row:
    """Not-a-number is not equal to itself, and the smallest integer stands for no id."""
    ids = (None if value == NONE else value for value in row[CORRELATION:])
    return *(None if value != value else value for value in row[:CORRELATION]), *ids


def faults(sound: Sound, edit: Edit, sizes: Iterable[int] = ()) -> list[str]:
    """Every rule that a damaged trace breaks, in words."""
    data = edit.of(sound.data)
    try:
        answer = read(data)
    except TraceError as error:
        found = [] if may_refuse(sound, edit) else [f"refused: {error.code}"]
        return found + list(differing(data, REFUSED, sizes))
    found = list(lost(sound, edit, data, answer))
    found += not_noted(data, answer)
    found += differing(data, answer.shown(), sizes)
    return found


def may_refuse(sound: Sound, edit: Edit) -> bool:
    """Nothing is left to tell a trace by: no record, or not its first bytes, or not the key and
    bracket of its events.
    """
    first = len(sound.data) - len(sound.data.lstrip())
    if edit.start <= first + 1 or all(map(edit.touches, sound.scan.records)):
        return True
    return edit.end >= sound.key_start and edit.start <= sound.scan.opens


def lost(sound: Sound, edit: Edit, data: bytes, answer: Answer) -> Iterable[str]:
    """Records that are gone without need, without a word, or that became another."""
    rows = [known(row) for row in answer.rows]
    if len(rows) != answer.ledger.seen - answer.ledger.skipped:
        yield f"{len(rows)} rows, {answer.ledger.seen} seen, {answer.ledger.skipped} skipped"
    left = Counter(rows)
    before: Record | None = None
    kept = []
    for at, record in enumerate(sound.scan.records):
        row, touched = sound.rows[at], edit.touches(record)
        if not touched and left[row]:
            left[row] -= 1
            kept.append(row)
        elif not touched and not may_lose(sound, edit, before, record):
            yield f"untouched record {at} is not kept: {row[NAME]}"
        elif not told(sound, edit, at, data, left, answer):
            yield f"record {at} is neither kept nor in a place that the ledger names"
        before = record
    order = [row for row in rows if row in set(kept)]
    if len(order) == len(kept) and order != kept:  # more of them: a block stands there twice
        yield "kept records are out of order"
    yield from joined(sound, edit, data, left)
    yield from unaccounted(sound, edit, data, rows, answer)


def unaccounted(
    sound: Sound, edit: Edit, data: bytes, rows: list[Row], answer: Answer
) -> Iterable[str]:
    """The sum of the bytes: of kept records, of named places, of sound objects, and separators."""
    if edit.start < sound.scan.opens or edit.end > sound.scan.closes:
        return
    if data[edit.start :].lstrip(b", \n").startswith(b"]"):  # keys of the document may follow
        return
    by = len(edit.new) - (edit.end - edit.start)
    owned = {at for row in rows for at in sound.of(row)}
    parts = [Record(start, start + size) for _, start, size in answer.ledger.every]
    parts += [
        Record(record.start, record.end + by) if edit.touches(record) else edit.moved(record)
        for at, record in enumerate(sound.scan.records)
        if at in owned
    ]
    whole = Record(sound.scan.opens, sound.scan.closes + by)
    if covered(data, whole, parts):
        return
    if not covered(data, whole, parts + sound_objects(sound, edit, data)):
        yield "some bytes are in no record and in no place that the ledger names"


def may_lose(sound: Sound, edit: Edit, before: Record | None, record: Record) -> bool:
    """Whether what shows where a record begins was hit; `before` is the record before it."""
    start = before.end - 1 if before else sound.key_start
    if edit.start == edit.end:
        return start < edit.start <= record.start
    return edit.start < record.start and start < edit.end


def told(
    sound: Sound, edit: Edit, at: int, data: bytes, left: Counter[Row], answer: Answer
) -> bool:
    """Whether a record was kept in another form, or each of its bytes is in a named place or in an
    object that is sound.
    """
    if any(at in sound.of(row) for row in left.elements()):
        return True
    pieces = remains(sound.scan.records[at], edit)
    named = [Record(start, start + size) for _, start, size in answer.ledger.every]
    if all(covered(data, piece, named) for piece in pieces):
        return True
    named += sound_objects(sound, edit, data)
    return all(covered(data, piece, named) for piece in pieces)


def covered(data: bytes, piece: Record, by: Iterable[Record]) -> bool:
    """Whether each byte of a piece is in one of the others, or stands between two values."""
    at = piece.start
    for one in [*sorted(by, key=lambda one: one.start), piece]:
        at += len(data[at : piece.end]) - len(data[at : piece.end].lstrip(b" \t\r\n,"))
        if one.start <= at and one is not piece:
            at = max(at, one.end)
    return at >= piece.end


def sound_objects(sound: Sound, edit: Edit, data: bytes) -> list[Record]:
    """Objects across the damage that are sound: of the head of one record and the tail of another,
    for all a reader can know.
    """
    by = len(edit.new) - (edit.end - edit.start)
    starts = {record.start + moved for record in sound.scan.records for moved in (0, by)}
    reach = max((r.end + by for r in sound.scan.records if edit.touches(r)), default=0)
    starts |= {at for at in range(edit.start, min(reach, len(data))) if data[at] == 0x7B}
    found = [Record(start, balanced(data, start)) for start in starts if start >= 0]
    return [
        one
        for one in found
        if one.start <= max(reach, edit.start + len(edit.new)) and edit.start <= one.end
        if is_json(data[one.start : one.end])
    ]


def remains(record: Record, edit: Edit) -> list[Record]:
    """What is left of a record's bytes, where they stand in the damaged file."""
    by = len(edit.new) - (edit.end - edit.start)
    head = Record(record.start, min(record.end, edit.start))
    tail = Record(max(record.start, edit.end) + by, record.end + by)
    return [piece for piece in (head, tail) if piece.start < piece.end]


def joined(sound: Sound, edit: Edit, data: bytes, left: Counter[Row]) -> Iterable[str]:
    """Rows with fields of two records, although no sound object has both."""
    for row in left.elements():
        owners = sound.of(row, OWN)
        if len(owners) > 1 and not sound_objects(sound, edit, data):
            yield f"one row of the records {sorted(owners)}: {row}"


def is_json(text: bytes, strict: bool = True) -> bool:
    try:
        json.loads(text, strict=strict)
    except ValueError:
        return False
    return True


def not_noted(data: bytes, answer: Answer) -> list[str]:
    """A newline or a tab in a string that nothing reads may pass; a NUL never does."""
    passes = b"\0" not in data and is_json(data, strict=False)
    if passes or answer.ledger.freeze().lost_data:
        return []
    return ["no sound JSON, and not a word about it"]


def differing(data: bytes, whole: Any, sizes: Iterable[int]) -> Iterable[str]:
    """The sizes of chunks at which the answer is another."""
    for size in sizes:
        try:
            part: Any = read(data, size).shown()
        except TraceError:
            part = REFUSED  # the code may depend on how much of the beginning was seen
        if part != whole:
            yield f"another answer at {size} bytes: {difference(whole, part)}"
            return


def difference(one: Any, two: Any) -> str:
    if not isinstance(one, dict) or not isinstance(two, dict):
        return f"{str(one)[:60]} / {str(two)[:60]}"
    return "; ".join(
        f"{key}: {str(one[key])[:120]} / {str(two[key])[:120]}"
        for key in one
        if one[key] != two[key]
    )
