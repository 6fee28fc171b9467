"""Records of a structured log: a head, a JSON object, and the payload that its md5 vouches for."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from foretrace.sources.compiler.heads import compile_id
from foretrace.sources.compiler.records import LogRecord

COMMON = frozenset(
    "rank compiled_autograd_id frame_id frame_compile_id attempt severity timestamp pathname"
    " thread process lineno subgraph_name has_payload stack".split()
)


def metadata_of(text: bytes) -> dict[str, Any] | None:
    """The JSON object of a head line; None when it is damaged."""
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
    return lines[1:].replace(b"\n\t", b"\n")


def vouched(payload: bytes, digest: object) -> bool:
    """Whether a payload is what torch hashed; what is not a digest vouches for anything."""
    if not isinstance(digest, str) or len(digest) != 32:
        return True
    return hashlib.md5(payload, usedforsecurity=False).hexdigest() == digest


def sound(payload: bytes) -> bool:
    """Whether a payload may be read although its digest differs.

    People replace names and paths before they share a log. That leaves text, and whole JSON.
    """
    try:
        payload.decode("utf-8")
        if payload.lstrip().startswith((b"{", b"[")):
            msgspec.json.decode(payload, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return b"\0" not in payload


class Strings:
    """File names by number; each process numbers its own."""

    def __init__(self) -> None:
        self.known: dict[int, dict[int, str]] = {}
        self.missing = 0

    def add(self, pid: int, value: object) -> bool:
        """Learn one; False when the record is not as torch writes it."""
        match value:
            case [str(text), int(number)]:
                self.known.setdefault(pid, {})[number] = text
                return True
        return False

    def resolve(self, pid: int, value: Any) -> Any:
        """The value with names in place of the numbers of all stack frames inside it."""
        match value:
            case {"filename": int(number), **rest}:
                return {**self.resolve(pid, rest), "filename": self.name(pid, number)}
            case dict():
                return {key: self.resolve(pid, inside) for key, inside in value.items()}
            case list():
                return [self.resolve(pid, inside) for inside in value]
        return value

    def name(self, pid: int, number: int) -> str:
        """One name; "" for one that the log does not hold."""
        found = self.known.get(pid, {}).get(number)
        if found is None:  # a forked process knows what its parent had numbered
            others = {names[number] for names in self.known.values() if number in names}
            found = others.pop() if len(others) == 1 else None
        self.missing += found is None
        return found or ""


def record_of(
    metadata: dict[str, Any], payload: bytes, strings: Strings, pid: int, line: int
) -> LogRecord:
    """The record that a head and its payload make."""
    kind = next((key for key in metadata if key not in COMMON), "")
    value = strings.resolve(pid, metadata.get(kind))
    fields = value if isinstance(value, dict) else {"value": value}
    if "stack" in metadata and "stack" not in fields:
        fields["stack"] = strings.resolve(pid, metadata["stack"])
    name, rank, attempt = fields.get("name"), metadata.get("rank"), metadata.get("attempt")
    return LogRecord(
        kind,
        name if kind == "artifact" and isinstance(name, str) else "",
        compile_id(metadata),
        attempt if isinstance(attempt, int) else 0,
        rank if isinstance(rank, int) else None,
        pid,
        fields,
        payload,
        line,
    )
