"""Damage as it happens to files, each kind at a place: some bytes are replaced by others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from byte_scanner import Record


@dataclass(frozen=True)
class Edit:
    """`data[start:end]` becomes `new`."""

    kind: str
    start: int
    end: int
    new: bytes = b""

    def __str__(self) -> str:
        return f"{self.kind} {self.start}-{self.end} {self.new[:20]!r}"

    def of(self, data: bytes) -> bytes:
        return data[: self.start] + self.new + data[self.end :]

    def touches(self, record: Record) -> bool:
        """Whether any byte of the record is changed, or something stands between two of them."""
        if self.start == self.end:
            return record.start < self.start < record.end
        return record.start < self.end and self.start < record.end

    def moved(self, record: Record) -> Record:
        """Where an untouched record stands afterwards."""
        by = len(self.new) - (self.end - self.start) if record.start >= self.end else 0
        return Record(record.start + by, record.end + by)


Kind = Callable[[bytes, int, bytes], Edit]


def flip(bit: int) -> Kind:
    return lambda data, at, _: Edit("flip", at, at + 1, bytes([data[at] ^ 1 << bit]))


def insert(new: bytes) -> Kind:
    return lambda data, at, _: Edit("insert", at, at, new)


def replace(new: bytes) -> Kind:
    return lambda data, at, _: Edit("replace", at, at + 1, new)


def remove(data: bytes, at: int, other: bytes) -> Edit:
    return Edit("remove", at, at + 1)


def zeros(size: int) -> Kind:
    """A block that was never written: a sparse file, a crash of the file system."""
    return lambda data, at, _: Edit("zeros", at, min(at + size, len(data)), bytes(size))


def lost(size: int) -> Kind:
    return lambda data, at, _: Edit("lost", at, min(at + size, len(data)))


def twice(size: int) -> Kind:
    """A block that was written twice."""
    return lambda data, at, _: Edit("twice", at, at, data[max(at - size, 0) : at])


def foreign(size: int) -> Kind:
    """A block of another file in place of this one's."""

    def made(data: bytes, at: int, other: bytes) -> Edit:
        end = min(at + size, len(data))
        return Edit("foreign", at, end, other[at % (len(other) - size) :][: end - at])

    return made


def cut(data: bytes, at: int, other: bytes) -> Edit:
    return Edit("cut", at, len(data))


# one byte, as a bad disk, a bad cable or a careless edit leaves it
BYTES: dict[str, Kind] = {
    "flip 0": flip(0),
    "flip 5": flip(5),
    "flip 7": flip(7),
    "remove": remove,
    "quote": insert(b'"'),
    "backslash": insert(b"\\"),
    "comma": insert(b","),
    "opening brace": insert(b"{"),
    "closing brace": insert(b"}"),
    "opening bracket": insert(b"["),
    "closing bracket": insert(b"]"),
    "NUL": insert(b"\0"),
    "newline": insert(b"\n"),
    "no UTF-8": replace(b"\xff"),
    "zero": replace(b"\0"),
    "letter": insert(b"x"),
}
BLOCKS: dict[str, Kind] = {
    "zeros": zeros(300),
    "lost": lost(300),
    "twice": twice(300),
    "foreign": foreign(300),
    "cut": cut,
}
