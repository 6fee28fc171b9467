"""The ledger: what was read, what was repaired, what was left out, and why.

`seen = kept + repaired + skipped` holds exactly for every trace. Each oddity has a stable code, a
severity and a count, so that nothing is dropped without a note.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

SEVERITIES = ("info", "notice", "data_loss", "error")
GRAVE = SEVERITIES[2:]  # what every page must show first

# code severity: what it means. The text of a note may replace this with the particulars of a trace.
_CODES = """
trace_truncated data_loss: the input ends inside the document: a killed export or an incomplete copy
event_unparsable data_loss: records that could not be parsed were skipped
bytes_unread data_loss: bytes that belong to no record, or to a list that does not count
gzip_truncated data_loss: the gzip stream ends early
gzip_crc data_loss: the gzip checksum does not match
gzip_trailing notice: bytes after the gzip stream were ignored
gpu_events_missing data_loss: launches have no GPU event
gpu_no_timestamp data_loss: GPU events without a time: counted, never summed
interleaved_writers data_loss: two writers shared this file
copied_damage data_loss: the trace that this copy was made from is damaged
repaired_string notice: broken quoting inside an event was repaired
repaired_header notice: a broken header entry was kept as text
bad_utf8 notice: bytes that are not UTF-8 are shown as U+FFFD
control_char notice: raw control characters inside strings
bom notice: a byte-order mark was skipped
nonfinite notice: NaN, Infinity or N/A where a number belongs: read as unknown
bigint notice: integers beyond 64 bits were kept as text
dup_key notice: a key is written twice in one object; the last value counts
trailing_comma notice: stray commas between events
separator_missing notice: records without a comma between them
comment notice: comments between events were skipped
number_repaired notice: numbers that JSON does not know were read as written
lone_surrogate notice: half a surrogate pair is shown as U+FFFD
schema_version notice: the trace states a schema version that this reader was not made for
legacy_format notice: written by the profiler before Kineto: host ranges, without GPU events
trailing_data notice: bytes after the end of the document were ignored
ts_precision notice: times are coarser than one nanosecond
base_mismatch notice: the traces of this set have different time bases
base_missing notice: no baseTimeNanoseconds: times are relative, ranks cannot be aligned
ts_type notice: times written as text
arg_type notice: arguments of an unexpected type were coerced or dropped
dur_negative error: negative durations: counted, never summed
dur_missing error: events without a duration: counted, never summed
ts_missing error: events without a usable time: counted, never summed
ts_out_of_window error: times outside the recording: counted, never summed
time_outlier error: events far from all others in time: counted, never summed
clock_mismatch error: the clocks of GPU and host disagree: no delay or cause of idle time is known
stream_overlap notice: GPU events overlap on one stream; busy time uses the union
dur_overrun error: GPU events run far past the next one on their stream
cpu_crossing notice: host ranges cross; the parent is the nearest range that contains the event
kernel_before_launch error: GPU events start before their launch (clock skew): delay unknown
kernel_unlinked notice: GPU events without a launch in this trace belong to no step
captured info: replayed GPU events have the op, sizes and modules of their graph's capture
capture_mismatch notice: replayed GPU events fit no capture of their graph
capture_left_out notice: captures that were not used
graph_launch info: one launch started several GPU events (CUDA graph)
corr_duplicate error: launches share a correlation id; a kernel links to the nearest earlier one
corr_zero notice: GPU events with correlation 0 are not linked
flow_orphan info: flow arrows with only one end (normal in Kineto)
unfinished_event notice: ranges still open when the recording stopped
name_replaced notice: the producer wrote `unknown` for names that were not plain ASCII
unknown_category info: events of a category that this version does not know
unknown_phase info: events of a phase that this version does not read
unknown_device info: the GPU is not in the table of devices
rank_unknown notice: the trace does not state its rank
rank_duplicate error: two traces have the same rank
rank_missing data_loss: ranks of the set are missing
merged_trace info: the file holds several merged ranks; each rank keeps its own ids
no_gpu_events notice: no GPU events: there are no GPU results
no_steps notice: no ProfilerStep ranges: there are no results per step
regions_left_out error: steps or regions inside 64 others were not measured
no_complete_events notice: no complete events; check that prof.step() was called
seq_duplicate notice: a sequence number is used by several backward ops
log_record_unparsable data_loss: records of a log that could not be parsed were skipped
log_payload_damaged data_loss: records of a log whose payload is cut or damaged were skipped
log_payload_changed notice: payloads that differ from their md5, as in an edited log, are read
log_records_lost data_loss: records that could not be written while the program ran
log_file_missing data_loss: logs that the bundle lists are missing
log_file_unreadable data_loss: logs of the bundle cannot be read
log_truncated data_loss: the log ends inside a message: a killed process or an incomplete copy
log_kind_unknown info: records of kinds that this version does not know
log_string_missing notice: file names that the log does not hold are shown as unknown
log_processes_left_out info: the log holds other processes, of another run: not shown
log_lines_other info: lines that torch.compile did not write
limit_depth error: values nested too deeply were dropped
limit_string error: records with a string beyond the limit were skipped
limit_args error: records with too many arguments were skipped
limit_event error: records larger than the limit were skipped
limit_events error: reading stopped at the limit of events
"""


# code -> (severity, what it means)
_ROWS = (line.split(maxsplit=2) for line in _CODES.strip().splitlines())
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
