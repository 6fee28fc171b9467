"""A snapshot of the allocator written out again, as a pickle that torch's memory viewer opens.

Nothing is copied from the file. Every record is made from the tables: sizes, addresses and times
are those of the snapshot, and a text holds known words or pseudonyms. Of a frame the function keeps
the words that PyTorch and its libraries use, and the file its place inside a package. Compile
contexts and metadata of the user stay on this machine.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import IO, Any

from foretrace.base import budget, files
from foretrace.base.patterns import regex
from foretrace.base.private import words
from foretrace.read.snapshot import OWN_KEY
from foretrace.schema.snapshot import ACTIONS, HeldBlock, History, Mark, Segment, Snapshot
from foretrace.show.share.chrome import device_name, known
from foretrace.show.share.pseudonyms import Pseudonyms, keeps

PROTOCOL = 4  # the memory viewer reads 2 to 4
_BATCH, _FRAME = 1000, 64 << 10  # as Python's own pickler
_SMALL = 2 << 20  # the allocator's segments for small tensors have this size
_LARGEST_SETTING = 1 << 40
_LIVE = ("active_allocated", "active_awaiting_free", "active_pending_free")
_STATES = frozenset((*_LIVE, "inactive"))
_KINDS = frozenset(("parameter", "buffer", "gradient", "optimizer"))
# functions that an analysis looks for, whatever the vocabulary says
_FUNCTIONS = words("""
    _call_impl _wrapped_call_impl __init__ _apply reset_parameters from_pretrained load_state_dict
    to_empty zero_grad unpack_hook backward forward step
""")
_FOLDER = regex(
    r"\A.*?[\\/]((?:site|dist)-packages|lib[\\/]python3(?:\.\d{1,2})?)[\\/](?!site|dist)"
)
_SOURCES = (".py", ".cpp", ".cc", ".c", ".cu", ".h")


def reference(number: int) -> bytes:
    """An item that came before."""
    return b"h%c" % number if number < 256 else b"j" + struct.pack("<I", number)


def whole_number(value: int) -> bytes:
    """A number."""
    if 0 <= value < 1 << 8:
        return b"K%c" % value
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    size = value.bit_length() // 8 + 1
    return b"\x8a%c" % size + value.to_bytes(size, "little", signed=True)


class PickleWriter:
    """Writes opcodes as Python's pickler does, and counts what it numbers."""

    def __init__(self, file: IO[bytes], protocol: int = PROTOCOL) -> None:
        self.file, self.protocol = file, protocol
        self.named, self.size = 0, 0
        self.held: list[bytes] = []
        self.texts: dict[str, int] = {}
        file.write(b"\x80" + bytes([protocol]))

    def put(self, *parts: bytes) -> None:
        """Write opcodes that lie in one frame."""
        self.held += parts
        self.size += sum(map(len, parts))
        if self.size > _FRAME:
            self.flush()

    def flush(self) -> None:
        """End the frame."""
        if self.protocol >= 4:
            self.file.write(b"\x95" + struct.pack("<Q", self.size))
        self.file.write(b"".join(self.held))
        self.held, self.size = [], 0

    def name(self) -> bytes:
        """Number the item before."""
        self.named += 1
        if self.protocol >= 4:
            return b"\x94"
        number = self.named - 1
        return b"q%c" % number if number < 256 else b"r" + struct.pack("<I", number)

    def text(self, text: str, shared: bool = True) -> bytes:
        """A text, or a reference to it."""
        if shared and text in self.texts:
            return reference(self.texts[text])
        self.texts[text] = self.named
        raw = text.encode("utf-8", "replace")
        short = self.protocol >= 4 and len(raw) < 256
        head = b"\x8c%c" % len(raw) if short else b"X" + struct.pack("<I", len(raw))
        return head + raw + self.name()

    def value(self, value: Any) -> None:
        """Plain data; lists and dicts are not referred to again."""
        if isinstance(value, dict):
            self.put(b"}", self.name(), b"(")
            for key, each in value.items():
                self.value(key)
                self.value(each)
            self.put(b"u")
        elif isinstance(value, list | tuple):
            self.put(b"](" if isinstance(value, list) else b"(")
            for each in value:
                self.value(each)
            self.put(b"e" if isinstance(value, list) else b"t")
        elif isinstance(value, str):
            self.put(self.text(value))
        elif isinstance(value, bool):
            self.put(b"\x88" if value else b"\x89")
        elif isinstance(value, float):
            self.put(b"G" + struct.pack(">d", value))
        else:
            self.put(whole_number(value))


class SnapshotCopy:
    """Writes one snapshot."""

    def __init__(self, snapshot: Snapshot, private: Pseudonyms, file: IO[bytes]) -> None:
        self.snapshot, self.private, self.out = snapshot, private, PickleWriter(file)
        self.frames: dict[int, int] = {}
        self.stacks: dict[int, int] = {}
        self.names: dict[str, str] = {}
        self.paths: dict[str, str] = {}

    def write(self) -> None:
        """Everything."""
        out, found = self.out, self.snapshot
        out.put(b"}", out.name(), b"(", out.text("segments"), b"](")
        for segment in found.segments:
            self._segment(segment)
        out.put(b"e", out.text("device_traces"), b"](")
        histories = {history.device: history for history in found.histories}
        for device in range(max(histories, default=-1) + 1):
            out.put(b"]", out.name())
            if device in histories:
                self._history(histories[device])
        out.put(b"e", out.text("allocator_settings"))
        out.value(self._settings())
        out.put(out.text("external_annotations"))
        out.value([self._mark(mark) for mark in found.marks])
        out.put(out.text(OWN_KEY))
        out.value(self._own())
        out.put(b"u.")
        out.flush()

    def _segment(self, segment: Segment) -> None:
        out, blocks = self.out, segment.blocks
        live = [block for block in blocks if block.state in _LIVE]
        out.put(b"}", out.name(), b"(")
        for key, value in {
            "device": segment.device,
            "address": segment.addr,
            "total_size": segment.size,
            "allocated_size": sum(block.size for block in blocks if block.state == _LIVE[0]),
            "active_size": sum(block.size for block in live),
            "requested_size": sum(block.requested for block in live),
            "stream": segment.stream,
            "segment_type": "small" if segment.size <= _SMALL else "large",
            "segment_pool_id": (0, int(segment.graph)),
            "is_expandable": segment.expandable,
        }.items():
            out.value(key)
            out.value(value)
        out.put(out.text("frames"), b"]", out.text("blocks"), b"](")
        for block in blocks:
            self._block(block)
        out.put(b"eu")

    def _block(self, block: HeldBlock) -> None:
        out, state = self.out, block.state if block.state in _STATES else "unknown"
        out.put(b"}", out.name(), b"(", out.text("address"), whole_number(block.addr))
        out.put(out.text("size"), whole_number(block.size))
        out.put(out.text("requested_size"), whole_number(block.requested))
        out.put(
            out.text("state"), out.text(state), out.text("frames"), self._stack(block.stack), b"u"
        )

    def _history(self, history: History) -> None:
        out = self.out
        columns = (history.action, history.addr, history.size, history.time_us, history.stream)
        for begin in range(0, len(history), _BATCH):
            budget.check()
            batch = (
                column[begin : begin + _BATCH].tolist() for column in (*columns, history.stack)
            )
            out.put(b"(")
            for action, addr, size, time_us, stream, stack in zip(*batch, strict=True):
                out.put(b"}", out.name(), b"(", out.text("action"), out.text(ACTIONS[action]))
                out.put(out.text("addr"), whole_number(addr), out.text("size"), whole_number(size))
                out.put(out.text("stream"), whole_number(stream), out.text("time_us"))
                out.put(whole_number(time_us), out.text("frames"), self._stack(stack), b"u")
            out.put(b"e")

    def _stack(self, number: int) -> bytes:
        if number in self.stacks:
            return reference(self.stacks[number])
        self.stacks[number] = self.out.named
        frames = self.snapshot.stacks[number]
        parts = [b"]", self.out.name(), *((b"(",) if frames else ())]
        parts += [self._frame(each) for each in frames]
        return b"".join((*parts, b"e" if frames else b""))

    def _frame(self, number: int) -> bytes:
        if number in self.frames:
            return reference(self.frames[number])
        self.frames[number] = self.out.named
        out, frame = self.out, self.snapshot.frames[number]
        name = frame.name
        if name not in self.names:
            keep = "stacks" in self.private.keep
            shown = self.private.kept(name) if keep else self.private.clean(name)
            self.names[name] = name if name in _FUNCTIONS else shown
        parts = [b"}", out.name(), b"(", out.text("name"), out.text(self.names[name])]
        if frame.file not in self.paths:
            self.paths[frame.file] = self._shown_path(frame.file)
        parts += [out.text("filename"), out.text(self.paths[frame.file])]
        return b"".join((*parts, out.text("line"), whole_number(frame.line), b"u"))

    def _shown_path(self, path: str) -> str:
        if path in ("", "??"):
            return path
        if {"stacks", "paths"} <= self.private.keep:
            return self.private.kept(path)
        if path.startswith("<"):
            return "<generated>"
        stem, suffix = os.path.splitext(path)
        suffix = suffix if suffix in _SOURCES else ""
        package = _FOLDER.match(stem)
        if package is None:
            same = "/" not in stem and "\\" not in stem and keeps(stem)
            return path if same and suffix else f"{self.private.pseudonym('path', path)}{suffix}"
        parts = re.split(r"[\\/]", stem[package.end() :])
        shown = "/".join(self.private.clean(part) for part in parts)
        folder = "lib/python3" if package[1].startswith("lib") else "site-packages"
        return f"/{folder}/{shown}{suffix}"

    def _mark(self, mark: Mark) -> dict[str, Any]:
        stage = "START" if mark.is_start else "END"
        name = self.private.clean(mark.name)
        return {"stage": stage, "name": name, "device": mark.device, "time_us": mark.time_us}

    def _settings(self) -> dict[str, Any]:
        """Settings whose names are known, and of their texts those that are known."""
        made: dict[str, Any] = {}
        for key, value in self.snapshot.settings.items():
            if not keeps(key):
                self.private.left_out["header"] += 1
            elif isinstance(value, str):
                made[key] = self.private.word(value, known) or ""
            elif abs(value) < _LARGEST_SETTING:
                made[key] = value
        return made

    def _own(self) -> dict[str, Any]:
        """What `record --memory` knows of tensors: names keep known words."""
        found, clean = self.snapshot, self.private.clean
        owners = []
        for each in found.owners:
            kind = each.kind if each.kind in _KINDS else ""
            owners.append((each.addr, each.bytes, kind, clean(each.name), known(each.dtype) or ""))
        card, lost = device_name(found.card), sum(found.lost.values())
        return {"owners": owners, "card": card, "card_bytes": found.card_bytes, "lost": lost}


def write_snapshot(snapshot: Snapshot, target: Path, private: Pseudonyms) -> Path:
    """Write the copy of a snapshot."""
    with files.replacing(target) as draft, draft.open("wb") as file:
        SnapshotCopy(snapshot, private, file).write()
    return target
