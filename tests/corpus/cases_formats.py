"""Files of another format."""

from __future__ import annotations

import os
import pickle
from typing import Any

from corpus.build import gz
from corpus.cases import Case, Expect, reject


class Pwned:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch pwned",)


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def message(number: int, body: bytes) -> bytes:
    """One length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + varint(len(body)) + body


# TracePacket: timestamp (8), trusted_packet_sequence_id (10), then a track descriptor (60) with a
# process name.
PERFETTO = b"".join(
    message(
        1,
        bytes([8 << 3])
        + varint(1_000_000 + i)
        + bytes([10 << 3])
        + varint(1)
        + b"\xe2\x03"
        + varint(9)
        + message(2, b"python3"),
    )
    for i in range(40)
)

# XSpace: planes (1), each with an id (1), a name (2) and lines (3).
XPLANE = message(
    1,
    bytes([1 << 3])
    + varint(1)
    + message(2, b"/host:CPU")
    + message(3, bytes([1 << 3]) + varint(7)),
)

XPLANE += message(1, bytes([1 << 3]) + varint(2) + message(2, b"/device:GPU:0"))

EXECUTION = (
    b'{"schema": "1.0.1", "pid": 1, "start_ts": 5, '
    b'"nodes": [{"id": 1, "name": "[pytorch|profiler|thread]"}]}'
)

TIMELINE = b"[[1,2,3],[[0,0,0],[16,32,16]]]"

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"

CASES = [
    *(
        Case(
            f"B33-{protocol}",
            f"pickle_protocol_{protocol}",
            pickle.dumps({"segments": [], "device_traces": []}, protocol),
            reject("E_PICKLE"),
            file="snapshot.pickle",
        )
        for protocol in (2, 3, 4, 5)
    ),
    Case("B34", "pickle_named_json", pickle.dumps(Pwned(), 4), reject("E_PICKLE")),
    Case(
        "B34-0", "pickle_text_named_json", pickle.dumps(Pwned(), 0), Expect("reject"), file="t.json"
    ),
    Case(
        "B36", "perfetto_protobuf", PERFETTO, reject("E_WRONG_FORMAT", "perfetto"), file="t.pftrace"
    ),
    Case(
        "B37-nsys",
        "nsys_sqlite",
        b"SQLite format 3\0" + bytes(84),
        reject("E_WRONG_FORMAT", "sqlite"),
        file="t.sqlite",
    ),
    Case(
        "B37-ncu",
        "ncu_rep",
        b"NVR\0" + bytes(range(60)),
        reject("E_WRONG_FORMAT", "nsight compute"),
        file="t.ncu-rep",
    ),
    Case("B37-xplane", "xplane", XPLANE, reject("E_WRONG_FORMAT", "xplane"), file="t.xplane.pb"),
    Case(
        "B38",
        "execution_trace",
        EXECUTION,
        reject("E_WRONG_FORMAT", "execution trace", "not a profiler trace"),
    ),
    Case(
        "B39",
        "memory_timeline",
        gz(TIMELINE),
        reject("E_WRONG_FORMAT", "memory timeline"),
        file="t.json.gz",
    ),
    Case("B41", "lfs_pointer", LFS, reject("E_NOT_A_TRACE", "git lfs pointer")),
]
