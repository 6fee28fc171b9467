"""Log files to records and messages, with a note of all that was not kept.

The bytes are cut into pieces: a line, and the lines below it that begin with a tab. The head of
the line (`[rank0]:V1115 07:59:39.444000 652 torch/_inductor/graph.py:2523] `) decides whether a
piece is a record of a structured log, a line of a message, or the output of something else.

The logs of a bundle are told by their names and their first bytes. A process does not know its rank
before `init_process_group`: a record without a rank gets the one that the rest of its process, or
the name of its file, states.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from sys import intern
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError, TraceError
from foretrace.base.patterns import regex
from foretrace.read.bytestream import first_bytes, open_stream, reported, zip_members
from foretrace.read.compiler.bundle import (
    NAMED,
    PACKED,
    LogRecord,
    TextRecord,
    is_named,
    manifest_of,
    names_in,
    nothing,
)
from foretrace.read.ledger import LedgerBuilder

_GLOG = (
    rb"[VIWEC]\d{4} \d\d:\d\d:\d\d[.,]\d{3,9} (?P<process>\d{1,20}) ?"
    rb"[^\n\t]{1,400}?:\d{1,9}\](?: |$)"
)
HEAD = regex(_GLOG)
RECORD_HEAD = regex(_GLOG + rb'(?=\{")')
_RANK = regex(rb"\[rank(\d{1,9})\]:")
_LARGEST_PID = 1 << 32  # torch 2.4 and earlier write the number of the thread instead


def pid_of(head: re.Match[bytes]) -> int:
    """The process that wrote the line; 0 where the log does not name it."""
    number = int(head["process"])
    return number if number < _LARGEST_PID else 0


def compile_id(metadata: dict[str, Any]) -> str:
    """`0/1`, or `!1/0/0` under compiled autograd, as torch prints it; "" outside of both."""
    autograd, frame = metadata.get("compiled_autograd_id"), metadata.get("frame_id")
    numbers = [] if frame is None else [frame, metadata.get("frame_compile_id")]
    if autograd is not None:
        numbers = [autograd, *numbers]
    if not all(isinstance(number, int) for number in numbers):
        return ""
    return ("" if autograd is None else "!") + "/".join(map(str, numbers))


class Strings:
    """The names of one log file; each process numbers its own."""

    def __init__(self) -> None:
        self.known: dict[int, dict[int, str]] = {}
        self.missing = 0

    def add(self, pid: int, value: object) -> bool:
        """Learn one; False when the value is not as torch writes it."""
        match value:
            case [str(text), int(number)]:
                self.known.setdefault(pid, {})[number] = text
                return True
        return False

    def resolve(self, pid: int, value: Any) -> Any:
        """The value, with names in place of the numbers in the stack frames inside of it."""
        if isinstance(value, dict):
            found = {key: self.resolve(pid, inside) for key, inside in value.items()}
            if type(number := found.get("filename")) is int:
                found["filename"] = self._name(pid, number)
            return found
        if isinstance(value, list):
            return [self.resolve(pid, inside) for inside in value]
        return value

    def _name(self, pid: int, number: int) -> str:
        """One name; "" for one that the log does not hold."""
        found = self.known.get(pid, {}).get(number)
        if found is None:  # of the process that this one was forked from
            others = {names[number] for names in self.known.values() if number in names}
            found = others.pop() if len(others) == 1 else None
        self.missing += found is None
        return found or ""


_ENDS = regex(rb"\n(?=[^\t\n])")


class Piece(Struct, frozen=True, gc=False):
    """`data` is without its last line feed; `line` and `offset` say where it begins."""

    data: bytes
    line: int
    offset: int
    size: int  # more than there is data where the piece is too large to hold
    ended: bool = True  # by a line feed

    @property
    def eol(self) -> int:
        """Where its first line ends."""
        return len(self.data) if (found := self.data.find(b"\n")) < 0 else found

    @property
    def where(self) -> tuple[int, int]:
        """Its place for the ledger."""
        return self.offset, self.size

    def cut(self, places: list[int]) -> list[Piece]:
        """Several pieces; each after the first begins at one of the places."""
        starts, ends = [0, *places], [*places, len(self.data)]
        found, line = [], self.line
        for start, end in zip(starts, ends, strict=True):
            data = self.data[start:end]
            ended = self.ended and end == len(self.data)
            found.append(Piece(data, line, self.offset + start, len(data), ended))
            line += data.count(b"\n")
        return found


class Cutter:
    """Cuts a stream into pieces; of one that is larger than `largest`, only the size is kept."""

    def __init__(self, largest: int) -> None:
        self.largest, self.line, self.offset = largest, 1, 0
        self.held: list[bytes] = []
        self.size = self.lines = 0

    def pieces(self, blocks: Iterator[bytes]) -> Iterator[Piece]:
        """All pieces; each block is searched once, however long a piece is."""
        feed = b""  # the last of a block: what follows says whether it ends a piece
        for block in blocks:
            text, start = feed + block, 0
            feed = b"\n" if text.endswith(b"\n") else b""
            text = text.removesuffix(b"\n")
            for end in _ENDS.finditer(text):
                self._hold(text[start : end.start()])
                yield self._finished(ended=True)
                start = end.end()
            self._hold(text[start:])
        if self.size or feed:
            yield self._finished(ended=bool(feed))

    def _hold(self, part: bytes) -> None:
        self.size, self.lines = self.size + len(part), self.lines + part.count(b"\n")
        if self.size <= self.largest:
            self.held.append(part)
        else:
            self.held.clear()

    def _finished(self, *, ended: bool) -> Piece:
        piece = Piece(b"".join(self.held), self.line, self.offset, self.size, ended)
        self.line, self.offset = self.line + self.lines + 1, self.offset + self.size + 1
        self.held, self.size, self.lines = [], 0, 0
        return piece


_TAGS = regex(
    rb"(?:\[(?P<id>!?\d{1,9}(?:/\d{1,9}){0,2})(?:_(?P<attempt>\d{1,9}))?\](?: |$))?"
    rb"(?:\[__(?P<channel>\w{1,80})\](?: |$))?"
)
_COLOR = regex(rb"\x1b\[[\d;]{0,32}m")
_NONE = TextRecord("", "", "", 0, None)


def tagged(line: bytes, start: int) -> bool:
    """Whether a compile id or the name of a channel follows the head, which ends at `start`."""
    found = _TAGS.match(line, start)
    return found is not None and found.end() > start


class Messages:
    """Collects lines; those with one head are one message."""

    def __init__(self, ledger: LedgerBuilder) -> None:
        self.texts: list[TextRecord] = []
        self.ledger = ledger
        self.first, self.key, self.lines = _NONE, b"", [b""]
        self.untagged = False

    def more(self, line: bytes) -> bool:
        """Take a line that continues the message; False when it does not."""
        if not self.key or not (line.startswith(self.key) or line == self.key[:-1]):
            return False
        if self.untagged and tagged(line, len(self.key)):
            return False
        self.lines.append(line[len(self.key) :])
        return True

    def begin(self, line: bytes, head: re.Match[bytes], number: int) -> None:
        """The first line of another message."""
        self.finish()
        self.ledger.seen += 1
        tags, rank = _TAGS.match(line, head.end()), _RANK.search(line[: head.start()])
        assert tags is not None  # it may be empty
        self.untagged = tags.end() == tags.start()
        # an editor may have taken the blank before an empty text away
        self.key, self.lines = line[: tags.end()].rstrip() + b" ", [line[tags.end() :]]
        self.first = TextRecord(
            channel=(tags["channel"] or b"").decode(),
            compile_id=(tags["id"] or b"").decode(),
            text="",
            line=number,
            rank=int(rank[1]) if rank else None,
            attempt=int(tags["attempt"] or 0),
            pid=pid_of(head),
        )

    def cut(self) -> None:
        """Leave the last line out: the file ends inside of it."""
        self.lines.pop()
        self.ledger.note("log_truncated")
        if self.lines:
            self.ledger.repaired += 1
        else:
            self.ledger.skipped += 1
            self.key = b""

    def finish(self) -> None:
        """Keep the message."""
        if self.key:
            whole = b"\n".join(self.lines)
            text = whole.decode("utf-8", "replace")
            if "\ufffd" in text and "\ufffd".encode() not in whole:
                self.ledger.note("bad_utf8")
            self.texts.append(replace(self.first, text=text))
        self.key = b""


# keys that any record may have beside its own
_COMMON = """
    rank compiled_autograd_id frame_id frame_compile_id attempt severity timestamp pathname thread
    process lineno subgraph_name has_payload stack
"""
COMMON = frozenset(_COMMON.split())
# what torch 2.3 to 2.13 write
_KINDS = """
    aot_autograd_backward_compilation_metrics aot_backward_graph aot_forward_graph
    aot_inference_graph aot_joint_graph artifact bwd_compilation_metrics
    bwd_compilation_metrics_runtime chromium_event compilation_metrics compilation_metrics_runtime
    compiled_autograd_graph create_symbol create_unbacked_symbol describe_source describe_storage
    describe_tensor dump_file dynamo_cpp_guards_str dynamo_guards dynamo_output_graph dynamo_start
    export exported_program expression_created graph_dump guard_added guard_added_fast
    guard_on_data_dependent_error inductor_input_graph inductor_output_code
    inductor_post_grad_graph inductor_pre_grad_graph link mismatched_fake_kernel
    missing_fake_kernel optimize_ddp_split_child optimize_ddp_split_graph propagate_real_tensors
    propagate_real_tensors_provenance str symbolic_shape_specialization
"""
KINDS = frozenset(_KINDS.split())
KNOWN = KINDS | COMMON


def metadata_of(text: bytes) -> dict[str, Any] | None:
    """The JSON object after a head; None when it is damaged."""
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        try:  # Python writes NaN, and halves of surrogate pairs
            found = json.loads(text, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) and found else None


def payload_of(lines: bytes) -> bytes:
    """The lines below a head, without their tabs."""
    return lines.removeprefix(b"\t").replace(b"\n\t", b"\n")


def vouched(payload: bytes, digest: object) -> bytes | None:
    """The payload as torch hashed it; None if it is not that, or has no digest."""
    if not isinstance(digest, str):
        return None if payload else payload
    if _md5(payload) == digest:
        return payload
    unix = payload.replace(b"\r\n", b"\n").removesuffix(b"\r")  # copied through Windows
    below = payload.rstrip(b"\n")  # empty lines that follow the record
    for form in (unix, below):
        if len(form) < len(payload) and _md5(form) == digest:
            return form
    return None


def _md5(payload: bytes) -> str:
    return hashlib.md5(payload, usedforsecurity=False).hexdigest()


def sound(payload: bytes, *, alone: bool) -> bool:
    """Whether a payload may be read although its digest differs: it is UTF-8 in any case.

    People replace names and paths before they share a log, which leaves whole JSON, or text. Text
    may as well be cut, so it must stand `alone`: between two records, without damaged lines.
    """
    try:
        text = payload.decode("utf-8")
        if text.lstrip().startswith(("{", "[")):
            msgspec.json.decode(text, type=msgspec.Raw)
            return True
    except (ValueError, RecursionError):
        return False
    return alone and "\0" not in text


def record_of(
    metadata: dict[str, Any], payload: bytes, strings: Strings, pid: int, line: int
) -> LogRecord:
    """The record that a head and its payload make. Raises `RecursionError` for nested values."""
    kind = next((key for key in metadata if key not in COMMON), "")
    value = strings.resolve(pid, metadata.get(kind))
    fields = value if isinstance(value, dict) else {"value": value}
    if "stack" in metadata and "stack" not in fields:
        fields["stack"] = strings.resolve(pid, metadata["stack"])
    name, rank, attempt = fields.get("name"), metadata.get("rank"), metadata.get("attempt")
    return LogRecord(
        kind=intern(kind),
        name=intern(name) if kind == "artifact" and isinstance(name, str) else "",
        compile_id=intern(compile_id(metadata)),
        attempt=attempt if isinstance(attempt, int) else 0,
        rank=rank if isinstance(rank, int) else None,
        pid=pid,
        fields=fields,
        payload=payload,
        line=line,
    )


_SHOWN = 5  # unknown kinds, by name
_REMAINS = regex(rb'\] \{"|\.py:\d{1,9}\]? ?\{')  # of a head


class Suspect(Struct):
    """A record whose payload does not match its digest, and the lines without a head after it."""

    piece: Piece
    metadata: dict[str, Any]
    below: bytes
    pid: int
    strays: list[Piece] = field(default_factory=list)


class LogFile:
    """Reads one file. Records and messages may both lie in it."""

    def __init__(self, ledger: LedgerBuilder, limits: Limits) -> None:
        self.ledger, self.limits, self.messages = ledger, limits, Messages(ledger)
        self.records: list[LogRecord] = []
        self.strings = Strings()
        self.suspect: Suspect | None = None
        self.unknown: dict[str, int] = {}  # kinds
        self.structured = False  # whether a record was seen
        self.torn = False  # whether the last record was lost: lines that follow may be its own

    def read_blocks(self, blocks: Iterator[bytes]) -> None:
        """The content of a file, in blocks of any size, or as much as the limits allow."""
        piece = None
        for piece in Cutter(self.limits.event).pieces(blocks):
            if self.ledger.seen >= self.limits.events:
                self.ledger.note("limit_events")
                break
            self._take(piece)
        if piece and not piece.ended and self.messages.key:
            self.messages.cut()
        self.messages.finish()
        self._settle(alone=False)
        self.ledger.note("log_string_missing", self.strings.missing)
        names = ", ".join(sorted(self.unknown)[:_SHOWN])
        text = f"records of kinds that this version does not know: {names}"
        self.ledger.note("log_kind_unknown", sum(self.unknown.values()), text)

    def _take(self, piece: Piece) -> None:
        """One piece: a record, a line of a message, or the output of another program."""
        if piece.size > len(piece.data):
            return self._lose(piece, "limit_event")
        first = piece.data[: piece.eol]
        line = (_COLOR.sub(b"", first) if b"\x1b" in first else first).removesuffix(b"\r")
        if self.messages.more(line):
            return None
        head = HEAD.match(line) or HEAD.search(line)
        if head is None:
            return self._stray(piece, line)
        self.messages.finish()
        self._settle(alone=True)
        if line.startswith(b"{", head.end()) and self._holds_records(line[head.end() :]):
            whole = piece if line == first else replace(piece, data=line + piece.data[len(first) :])
            self._record(whole, head)
        elif self.structured and not tagged(line, head.end()):
            self._lose(piece, "log_record_unparsable")
        else:
            self.messages.begin(line, head, piece.line)
        return None

    def _holds_records(self, text: bytes) -> bool:
        """Whether this is a structured log: a message may begin with a brace, too."""
        if not self.structured:
            found = metadata_of(text) or {}
            self.structured = not KNOWN.isdisjoint(found)
        return self.structured

    def _record(self, piece: Piece, head: re.Match[bytes]) -> None:
        """A record of a structured log, or several if the line feeds between them are damaged."""
        below = piece.data[piece.eol + 1 :]
        metadata = metadata_of(piece.data[head.end() : piece.eol])
        digest = (metadata or {}).get("has_payload")
        payload = vouched(payload_of(below), digest)
        if metadata is not None and payload is not None:
            return self._keep(piece, metadata, payload, pid_of(head))
        inside = [found.start() for found in RECORD_HEAD.finditer(piece.data, head.end())]
        if inside or metadata is None:
            torn, *others = piece.cut(inside)
            self._lose(torn, "log_record_unparsable")
            for other in others:
                self._take(other)
        else:
            self.suspect = Suspect(piece, metadata, below, pid_of(head))
        return None

    def _stray(self, piece: Piece, line: bytes) -> None:
        """Lines without a head: what is left of a record, or what another program wrote."""
        if self.structured and _REMAINS.search(line):
            self._settle(alone=True)
            self._lose(piece, "log_record_unparsable")
        elif self.suspect:
            self.suspect.strays.append(piece)
        elif self.structured and not self.torn and (b"\n\t" in piece.data or not piece.ended):
            self._lose(piece, "log_record_unparsable")
        elif line.strip():
            self.ledger.note("log_lines_other", where=piece.where)

    def _settle(self, *, alone: bool) -> None:
        """Decide about a suspect once its end is known; `alone`: another record follows."""
        suspect, self.suspect = self.suspect, None
        if suspect is None:
            return None
        strays = suspect.strays
        below = [suspect.below, *(piece.data[piece.eol + 1 :] for piece in strays)]
        joined = payload_of(b"\n".join(filter(None, below)))
        payload = vouched(joined, suspect.metadata.get("has_payload"))
        if payload is None:
            payload = payload_of(suspect.below)
            # an editor that takes white space away explains a difference, at the end as well
            alone |= suspect.piece.ended and b"\n\n" in suspect.below
            if not suspect.below or not sound(payload, alone=alone and not strays):
                return self._lose(suspect.piece, "log_payload_damaged")
            self.ledger.note("log_payload_changed", where=suspect.piece.where)
        self.ledger.note("log_lines_other", len(strays), where=strays[0].where if strays else None)
        return self._keep(suspect.piece, suspect.metadata, payload, suspect.pid)

    def _keep(self, piece: Piece, metadata: dict[str, Any], payload: bytes, pid: int) -> None:
        try:
            record = record_of(metadata, payload, self.strings, pid, piece.line)
        except RecursionError:
            return self._lose(piece, "limit_depth")
        if record.kind == "str":
            if not self.strings.add(pid, metadata["str"]):
                return self._lose(piece, "log_record_unparsable")
        else:
            self.records.append(record)
        self.torn = False
        self.ledger.seen += 1
        if record.kind not in KINDS:
            self.unknown[record.kind] = self.unknown.get(record.kind, 0) + 1
        return None

    def _lose(self, piece: Piece, code: str) -> None:
        """Leave a record out, with a note."""
        self.ledger.seen += 1
        self.ledger.skipped += 1
        self.torn = True
        self.ledger.note(code, where=piece.where)


# The files of a bundle, and the ranks of their processes.

_IN_NAME = regex(r"(?:^|_)rank_?(\d{1,9})(?!\d)")  # dedicated_log_torch_trace_rank_3_x1.log
Entry = TypeVar("Entry", LogRecord, TextRecord)


class Ranks:
    """What the files of a bundle say about the ranks of their processes."""

    def __init__(self, default: int | None) -> None:
        self.default = default  # of the bundle
        self.stated: dict[tuple[str, int], set[int]] = {}  # by file and process
        self.processes: dict[str, int] = {}  # by file: the one that wrote most of it

    def learn(self, path: str, entries: Iterable[LogRecord | TextRecord]) -> None:
        """Take note of the ranks in one file."""
        wrote = Counter((entry.pid, entry.rank) for entry in entries)
        found = _IN_NAME.search(os.path.basename(path))
        named = int(found[1]) if found else None
        for pid, stated in wrote:
            rank = named if stated is None else stated
            self.stated.setdefault((path, pid), set()).update([] if rank is None else [rank])
        if wrote:
            self.processes[path] = max(wrote, key=lambda each: wrote[each])[0]

    def of(self, path: str, pid: int) -> int | None:
        """The rank of a process; None where the files say nothing, or several things."""
        own = self.stated.get((path, pid), set())
        everywhere = own or {
            rank for (_, other), ranks in self.stated.items() if other == pid != 0 for rank in ranks
        }
        if len(everywhere) > 1:
            return None
        return next(iter(everywhere), self.default)

    def filled(self, path: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries of one file with their ranks, as far as they are known."""
        known = {pid: self.of(path, pid) for source, pid in self.stated if source == path}
        if all(rank is None for rank in known.values()):
            return entries
        return [
            entry if entry.rank is not None else replace(entry, rank=known[entry.pid])
            for entry in entries
        ]


_PEEK = 256 << 10  # a program may print much before it compiles


def files_of(path: str, limits: Limits, ledger: LedgerBuilder) -> list[str]:
    """The logs of a bundle, by name, or of a zip; of a file, the file itself."""
    if not os.path.isdir(path):
        members = zip_members(path, limits) or []
        named = [member for member in members if is_named(member.removeprefix(f"{path}::"))]
        return [member for member in named if _is_log(member, limits)] or [path]
    manifest = manifest_of(path)
    stated = manifest.files if manifest else ()
    missing = [name for name in stated if not os.path.isfile(os.path.join(path, name))]
    ledger.note("log_file_missing", len(missing), f"missing from the bundle: {', '.join(missing)}")
    ledger.note("log_records_lost", manifest.lost if manifest else 0)
    names = names_in(path)
    found = [
        os.path.join(path, name)
        for name in names
        if is_named(name) and not (name.endswith(PACKED) and os.path.splitext(name)[0] in names)
    ]
    logs = [each for each in found if os.path.isfile(each) and _is_log(each, limits)]
    if not logs:
        raise nothing(path, "contains no log of torch.compile")
    return logs


def read_files(sources: Sequence[str], limits: Limits, ledger: LedgerBuilder) -> dict[str, LogFile]:
    """What each file holds; one of several that cannot be read is noted, and the others are."""
    files: dict[str, LogFile] = {}
    problems: list[TraceError] = []
    for source in sources:
        file = LogFile(ledger, limits)
        try:
            file.read_blocks(open_stream(source, limits, ledger, reported(source)).blocks)
            files[source] = file
        except LimitError:
            raise
        except TraceError as problem:
            problems.append(problem)
    if problems and not files:
        raise problems[0]
    ledger.note("log_file_unreadable", len(problems), str(problems[0]) if problems else "")
    return files


def _is_log(path: str, limits: Limits) -> bool:
    """Whether a file is named as torch names its logs, or begins like one."""
    if NAMED.fullmatch(os.path.basename(path)):
        return True
    try:
        return HEAD.search(first_bytes(path, limits, _PEEK)) is not None
    except TraceError:
        return False
