"""The ledger: what was read, what was repaired, what was left out, and why.

`seen = kept + repaired + skipped` holds exactly for every trace. Each oddity has a stable code, a
severity and a count, so that nothing is dropped without a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from foretrace.base.units import count_text

SEVERITIES = ("info", "notice", "data_loss", "error")
GRAVE = SEVERITIES[2:]  # what every page must show first

# code -> (severity, what it means); a note may replace the text with the particulars of a trace
_LINES = Path(__file__).with_name("ledger_codes.txt").read_text(encoding="utf-8").splitlines()
_ROWS = (line.split(maxsplit=2) for line in _LINES)
CODES = {code: (severity.rstrip(":"), text) for code, severity, text in _ROWS}


# Events that happened are missing, or nothing says where they belong: counts are lower bounds, and
# the absence of something proves nothing.
_ABSENT = """
    trace_truncated event_unparsable bytes_unread gzip_truncated gzip_crc interleaved_writers
    copied_damage
    ts_missing ts_out_of_window time_outlier limit_string limit_args limit_event limit_events
    log_record_unparsable log_payload_damaged log_records_lost log_file_missing log_truncated
    log_file_unreadable
"""
ABSENT = frozenset(_ABSENT.split())
# Events that a copy cannot hold, because it holds times only.
UNCOPIED = ABSENT | {"gpu_no_timestamp", "dur_missing", "dur_negative"}
DAMAGE = "foretraceDamage"  # header key of a copy: the codes of what is missing from it


class NoteEntry(Struct, frozen=True):
    """One oddity of a trace or of a set of traces, as documents have it; `code` is stable."""

    code: str
    severity: str
    count: int
    text: str

    @classmethod
    def of(cls, note: Note) -> NoteEntry:
        """The note without its byte offsets."""
        return cls(note.code, note.severity, note.count, note.text)

    @property
    def shown(self) -> str:
        """`no_steps (1): no ProfilerStep ranges`."""
        return f"{self.code} ({count_text(self.count)}): {self.text}"


class Note(NoteEntry, frozen=True):
    """`where` holds (byte offset, length) of the first few known cases."""

    where: tuple[tuple[int, int], ...] = ()


def _by_severity(note: Note) -> tuple[int, str]:
    return -SEVERITIES.index(note.severity), note.code


class LedgerEntry(Struct, frozen=True):
    """Records read: `seen = kept + repaired + skipped`, exact. The worst note comes first."""

    seen: int
    kept: int
    repaired: int
    skipped: int
    notes: Sequence[NoteEntry]

    @classmethod
    def of(cls, ledger: Ledger) -> LedgerEntry:
        """The ledger as documents have it."""
        notes = [NoteEntry.of(note) for note in ledger.notes]
        return cls(ledger.seen, ledger.kept, ledger.repaired, ledger.skipped, notes)

    @property
    def lost_data(self) -> bool:
        """Whether `--strict` must fail: something was repaired, left out, or cannot be trusted."""
        odd = any(note.severity != "info" for note in self.notes)
        return self.repaired > 0 or self.skipped > 0 or odd

    @property
    def banner(self) -> tuple[NoteEntry, ...]:
        """The notes that every table, page and comparison made from this trace must show."""
        return tuple(note for note in self.notes if note.severity in GRAVE)


class Ledger(LedgerEntry, frozen=True):
    """What was read of one trace, with the places of its oddities."""

    notes: tuple[Note, ...] = ()

    @property
    def gap(self) -> str:
        """Why the trace is incomplete, or the log; empty when all that was written is here."""
        what = "log" if any(note.code.startswith("log_") for note in self.notes) else "trace"
        missing = (note for note in self.notes if note.code in ABSENT)
        return next((f"the {what} is incomplete ({n.code}): {n.text}" for n in missing), "")

    def with_notes(self, notes: tuple[Note, ...]) -> Ledger:
        """The ledger with further notes in their place."""
        return replace(self, notes=tuple(sorted((*self.notes, *notes), key=_by_severity)))

    def count(self, code: str) -> int:
        """How often the trace has this oddity."""
        return next((note.count for note in self.notes if note.code == code), 0)


PLACES = 5  # kept of each oddity


class LedgerBuilder(Struct):
    """Collects notes while reading; frozen into a `Ledger` at the end."""

    seen: int = 0
    repaired: int = 0
    skipped: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    places: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    unread: int = 0  # bytes

    def note(
        self, code: str, count: int = 1, text: str = "", where: tuple[int, int] | None = None
    ) -> None:
        """Count one oddity; `text` replaces the general wording with that of this trace."""
        if count <= 0:
            return
        self.counts[code] = self.counts.get(code, 0) + count
        if text:
            self.texts[code] = text
        if where is not None and len(self.places.setdefault(code, [])) < PLACES:
            self.places[code].append(where)

    def inherit(self, codes: object) -> None:
        """Note what a copy says is missing; only codes of the ledger are repeated."""
        known = [code for code in CODES if code in codes] if isinstance(codes, list) else []
        text = f"a copy of a damaged trace: {', '.join(known)}"
        self.note("copied_damage", len(known), text)

    def leave(self, start: int, size: int) -> None:
        """Count a stretch of bytes that belongs to no record."""
        self.unread += size
        self.note("bytes_unread", where=(start, size))

    def merge(self, other: LedgerBuilder) -> None:
        """Add what another builder counted."""
        self.seen += other.seen
        self.repaired += other.repaired
        self.skipped += other.skipped
        self.unread += other.unread
        for code, count in other.counts.items():
            self.note(code, count, other.texts.get(code, ""))
            kept = self.places.get(code, []) + other.places.get(code, [])
            if kept:
                self.places[code] = kept[:PLACES]

    def freeze(self) -> Ledger:
        """The finished ledger."""
        notes, texts = [], dict(self.texts)
        if self.unread:
            first = self.places["bytes_unread"][0][0]
            text = f"{self.unread:,} bytes were left out, the first at byte {first:,}"
            texts["bytes_unread"] = text
        for code, count in self.counts.items():
            severity, meaning = CODES[code]
            where = tuple(self.places.get(code, ()))
            notes.append(Note(code, severity, count, texts.get(code) or meaning, where))
        kept = self.seen - self.repaired - self.skipped
        ordered = tuple(sorted(notes, key=_by_severity))
        return Ledger(self.seen, kept, self.repaired, self.skipped, ordered)


class LeftOut(Struct, frozen=True):
    """A file named like a trace that cannot be read, and why."""

    path: str
    code: str
    text: str
