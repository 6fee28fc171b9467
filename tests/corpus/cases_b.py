"""B: what is wrong with the file, its packing, or the thing that the path names."""

from __future__ import annotations

import importlib
import io
import os
import pickle
import socket
import struct
import sys
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from corpus.build import BASE_NS, E7, Doc, g0, gn, gz, interleave, raw_bytes
from corpus.cases import (
    ANY,
    G0,
    Case,
    Expect,
    Opened,
    accept,
    both,
    is_t0,
    kernel_names,
    recover,
    reject,
    several,
)

ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
GN_EVENTS = 5 * 1000 + 6
CUT_TAIL = G0[: G0.index(b"\n  ],")]


# ---- documents
# ------------------------------------------------------------------------------------------------------


@cache
def gn_text() -> bytes:
    return gn(1000).bytes()


@cache
def gn_gz() -> bytes:
    return gz(gn_text())


def cut_whole() -> bytes:
    """The first 600 launches of Gn(1000), as a well-formed document."""
    return Doc(gn(600).events[: 3 + 5 * 600]).bytes()


def cut_between_events() -> bytes:
    """Gn(1000), cut right after a `},`."""
    whole = cut_whole()
    return whole[: whole.index(b"\n  ],")] + b",\n"


def bad_crc() -> bytes:
    packed = gn_gz()
    return packed[:-8] + bytes([packed[-8] ^ 0xFF]) + packed[-7:]


def rank_doc(rank: int, launches: int = 1) -> Doc:
    """One rank of a set: its own process, its own time base, its own rank."""
    doc = gn(launches)
    for event in doc.events:
        if event["pid"] == 100:
            event |= {"pid": 100 + rank, "tid": 100 + rank}
    info = {"backend": "nccl", "rank": rank, "world_size": 8}
    return doc.head(
        distributedInfo=info, baseTimeNanoseconds=BASE_NS + rank * 7_889_238_000_000_000
    )


def padded_error(padding: int) -> tuple[bytes, int]:
    """A record that cannot be parsed, behind `padding` blanks, and the byte where it starts."""
    head, tail = G0[: G0.index(b"\n  ],")], G0[G0.index(b"\n  ],") :]
    before = head + b",\n" + b" " * padding
    return before + b'{"ph": "X", "ts": -1.-05, "dur": }' + tail, len(before)


def b19_events(opened: Opened) -> None:
    """What was saved is what one of the writers wrote, but for the few records that are spliced
    from two of them.

    A splice at the end of a line can be well formed, and then nothing shows it: at most one per
    block.
    """
    blocks = 2 * (len(rank_doc(0, 400).bytes()) // 8192 + 1)
    starts = {1_200_000 + 300_000 * i for i in range(400)}
    kernels = opened.kernels
    assert 800 - blocks <= len(kernels) <= 800
    spliced = [
        kernel
        for kernel in kernels
        if (kernel["name"], kernel["dur_ns"]) != ("sgemm", 50_000)
        or (kernel["ts_ns"] - BASE_NS) % 7_889_238_000_000_000 not in starts
    ]
    assert len(spliced) <= blocks


def says_export(opened: Opened) -> None:
    is_t0(opened)
    texts = " ".join(note.text for note in opened.ledger.notes)
    assert "export" in texts, "the note names the export that was killed"


def b09_base(opened: Opened) -> None:
    is_t0(opened)
    assert opened.kernels[0]["ts_ns"] == BASE_NS + 1_200_000


def b12_share(opened: Opened) -> None:
    good = opened.ledger.kept + opened.ledger.repaired
    assert good >= 0.45 * GN_EVENTS
    assert opened.totals["gpu_busy_ns"] == 50_000 * opened.totals["kernels"]


def thousand(opened: Opened) -> None:
    assert opened.totals["kernels"] == opened.totals["launches"] == 1000
    assert opened.totals["gpu_busy_ns"] == 50_000_000


def b04_numbers(opened: Opened) -> None:
    assert opened.totals["kernels"] == 600
    assert opened.totals["gpu_busy_ns"] == 30_000_000


def scaled(opened: Opened, n: int) -> None:
    assert opened.totals["kernels"] == opened.totals["launches"] == opened.totals["cpu_ops"] == n
    assert opened.totals["gpu_busy_ns"] == 50_000 * n


def error_at(offset: int) -> Any:
    def run(opened: Opened) -> None:
        note = next(note for note in opened.ledger.notes if note.code == "event_unparsable")
        assert note.where, "the note says where"
        assert note.where[0][0] == offset

    return run


# ---- zip files
# ------------------------------------------------------------------------------------------------------


def zipped(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
        for name, target in (links or {}).items():
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, 0o120777 << 16
            archive.writestr(info, target)
    return buffer.getvalue()


def overlapping_zip() -> bytes:
    """Sixteen entries of the directory that all point at one compressed body."""
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    plain = G0 + b" " * 1_000_000
    packed = body.compress(plain) + body.flush()
    sizes = struct.pack("<III", zlib.crc32(plain), len(packed), len(plain))
    names = [f"rank{i:02}.json".encode() for i in range(16)]
    local = (
        b"PK\x03\x04"
        + struct.pack("<HHHHH", 20, 0, 8, 0, 0x21)
        + sizes
        + struct.pack("<HH", len(names[0]), 0)
        + names[0]
    )
    directory = b"".join(
        b"PK\x01\x02"
        + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 0x21)
        + sizes
        + struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, 0)
        + name
        for name in names
    )
    start = len(local) + len(packed)
    end = b"PK\x05\x06" + struct.pack(
        "<HHHHIIH", 0, 0, len(names), len(names), len(directory), start, 0
    )
    return local + packed + directory + end


RANKS_ZIP = zipped({f"rank{i}_trace.json": rank_doc(i).bytes() for i in range(8)})


def slip_members(folder: Path) -> str:
    """A member by its own odd name: a label, never a path."""
    inside = folder / "inside"
    inside.mkdir()
    path = inside / "t.zip"
    path.write_bytes(
        zipped(
            {"../../x.json": G0, "/etc/x": rank_doc(1).bytes(), "C:\\x": rank_doc(2).bytes()},
            {"link.json": "/etc/passwd"},
        )
    )
    return f"{path}::../../x.json"


def zip_member(folder: Path) -> str:
    path = folder / "ranks.zip"
    path.write_bytes(RANKS_ZIP)
    return f"{path}::rank3_trace.json"


def is_rank_3(opened: Opened) -> None:
    is_t0(opened)
    assert opened.doc["trace"]["rank"] == 3


# ---- folders, links, pipes
# ------------------------------------------------------------------------------------------


def folder_of(**files: bytes) -> Any:
    """A folder with junk and the given files; `__` in a name stands for a dot."""

    def place(folder: Path) -> Path:
        inside = folder / "traces"
        inside.mkdir()
        (inside / "notes.txt").write_text("nothing to see")
        (inside / "server_args.json").write_text('{"model": "x"}')
        (inside / "sub").mkdir()
        for name, content in files.items():
            (inside / name.replace("__", ".")).write_bytes(content)
        return inside

    return place


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def unix_socket(folder: Path) -> Path:
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)  # the address of a socket is short; the folder's path may not be
    try:
        server.bind("sock")
    finally:
        os.chdir(here)
        server.close()
    return folder / "sock"


def link_loop(folder: Path) -> Path:
    (folder / "a.json").symlink_to(folder / "b.json")
    (folder / "b.json").symlink_to(folder / "a.json")
    return folder / "a.json"


def link_to_trace(folder: Path) -> Path:
    (folder / "real.json").write_bytes(G0)
    (folder / "link.json").symlink_to(folder / "real.json")
    return folder / "link.json"


def odd_name(content: bytes) -> Any:
    def place(folder: Path) -> str:
        path = os.path.join(os.fsencode(folder), b"a b'\"<img>&\n\xff.json")
        with open(path, "wb") as file:
            file.write(content)
        return os.fsdecode(path)

    return place


def missing(folder: Path) -> Path:
    return folder / "not_there.json"


def forbidden(folder: Path) -> Path:
    (folder / "t.json").write_bytes(G0)
    (folder / "t.json").chmod(0)
    return folder / "t.json"


# ---- other formats
# --------------------------------------------------------------------------------------------------


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
EXECUTION = b'{"schema": "1.0.1", "pid": 1, "start_ts": 5, "nodes": [{"id": 1, "name": "[pytorch|profiler|thread]"}]}'
TIMELINE = b"[[1,2,3],[[0,0,0],[16,32,16]]]"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"
ANSI = "\x1b[2J\x1b]0;owned\x07sgemm"


def packed_by(module: str) -> Any:
    def make() -> bytes:
        return importlib.import_module(module).compress(G0)

    return make


HALF = len(G0) // 2

CASES = [
    Case("B01", "empty_file", b"", reject("E_EMPTY")),
    Case("B02", "whitespace_only", b" " * 4096, reject("E_EMPTY")),
    Case(
        "B03",
        "cut_in_header",
        G0[: G0.index(b'"traceEvents"') - 3],
        reject("E_NO_EVENTS", "cut in the header"),
    ),
    Case(
        "B04",
        "cut_between_events",
        cut_between_events,
        recover(3003, 3003, trace_truncated=1),
        b04_numbers,
        same_as=cut_whole,
    ),
    Case("B07", "missing_tail", CUT_TAIL, recover(11, 11, trace_truncated=1), is_t0, same_as=G0),
    Case(
        "B08",
        "leftover_tmp",
        CUT_TAIL,
        recover(11, 11, trace_truncated=1),
        says_export,
        same_as=G0,
        file="t.json.tmp",
        forms=False,
    ),
    Case("B08-whole", "leftover_tmp_whole", G0, accept(), is_t0, file="t.json.tmp"),
    Case(
        "B08-dir",
        "leftover_tmp_in_folder",
        None,
        recover(11, 11, trace_truncated=1),
        says_export,
        place=folder_of(t__json__tmp=CUT_TAIL),
        same_as=G0,
        forms=False,
    ),
    Case("B09", "header_after_events", g0().bytes("old_order"), accept(), b09_base),
    Case("B11", "json_named_gz", G0, accept(), is_t0, file="t.json.gz"),
    Case("B11-not", "gz_named_json", gz(G0), accept(), is_t0, file="t.json"),
    # What was cut is also a document that ends early, so both notes may stand.
    Case(
        "B12",
        "gz_truncated",
        lambda: gn_gz()[: len(gn_gz()) // 2],
        recover(None, None, gzip_truncated=1, may="trace_truncated"),
        b12_share,
        compared=False,
        forms=False,
    ),
    Case(
        "B13",
        "gz_no_trailer",
        lambda: gn_gz()[:-8],
        recover(5006, 5006, gzip_truncated=1),
        thousand,
        same_as=gn_text,
        forms=False,
    ),
    Case(
        "B14",
        "gz_bad_crc",
        bad_crc,
        recover(5006, 5006, gzip_crc=1),
        thousand,
        same_as=gn_text,
        forms=False,
    ),
    Case("B16", "gz_multi_member", gz(G0[:HALF]) + gz(G0[HALF:]), accept(), is_t0, forms=False),
    Case(
        "B17",
        "gz_two_docs",
        gz(rank_doc(0).bytes()) + gz(rank_doc(1).bytes()),
        recover(11, 11, one_of="interleaved_writers trailing_data"),
        is_t0,
        same_as=G0,
        forms=False,
    ),
    Case(
        "B18",
        "gz_interleaved_738",
        lambda: interleave([gz(rank_doc(i, 1000).bytes(), level=1) for i in range(4)], 4096),
        reject("E_GZIP", "several ranks"),
        forms=False,
    ),
    Case(
        "B19",
        "json_interleaved",
        lambda: interleave([rank_doc(i, 400).bytes() for i in range(2)], 8192),
        recover(None, None, interleaved_writers=ANY, may="*"),
        b19_events,
        compared=False,
    ),
    Case(
        "B21",
        "gz_trailing_garbage",
        gz(G0) + b"garbage",
        accept(gzip_trailing=1),
        is_t0,
        same_as=G0,
        forms=False,
    ),
    Case("B22", "gz_header_name", gz(G0, name=b"../../etc/cron.d/x"), accept(), is_t0, forms=False),
    Case("B23", "double_gz", gz(gz(G0)), accept(), is_t0, forms=False),
    Case("B23-three", "triple_gz", gz(gz(gz(G0))), reject("E_GZIP"), forms=False),
    Case(
        "B24",
        "zstd",
        packed_by(ZSTD),
        accept(),
        is_t0,
        same_as=G0,
        file="t.json.zst",
        forms=False,
        needs=ZSTD,
    ),
    Case("B24-xz", "xz", packed_by("lzma"), reject("E_WRONG_FORMAT", "xz"), forms=False),
    Case("B24-bz2", "bz2", packed_by("bz2"), reject("E_WRONG_FORMAT", "bz"), forms=False),
    Case(
        "B26",
        "zip_many",
        RANKS_ZIP,
        several(*(f"rank{i}_trace.json" for i in range(8))),
        file="t.zip",
        forms=False,
    ),
    Case(
        "B26-one",
        "zip_one",
        zipped({"t.json": G0, "notes.txt": b"hello"}),
        accept(),
        is_t0,
        same_as=G0,
        file="t.zip",
        forms=False,
    ),
    Case(
        "B26-member",
        "zip_member",
        None,
        accept(),
        is_rank_3,
        place=zip_member,
        same_as=rank_doc(3).bytes(),
        forms=False,
    ),
    Case(
        "B26-gz",
        "zip_of_gz",
        zipped({"t.json.gz": gz(G0)}),
        accept(),
        is_t0,
        same_as=G0,
        file="t.zip",
        forms=False,
    ),
    Case(
        "B26-none",
        "zip_without_trace",
        zipped({"notes.txt": b"hello"}),
        reject("E_NO_EVENTS"),
        file="t.zip",
        forms=False,
    ),
    Case(
        "B26-cut",
        "zip_cut",
        RANKS_ZIP[: len(RANKS_ZIP) // 2],
        reject("E_ZIP"),
        file="t.zip",
        forms=False,
    ),
    Case("B27", "zip_slip", None, accept(), is_t0, place=slip_members, same_as=G0, forms=False),
    Case(
        "B27-one",
        "zip_slip_one",
        zipped({"../../x.json": G0}, {"link.json": "/etc/passwd"}),
        accept(),
        is_t0,
        same_as=G0,
        file="t.zip",
        forms=False,
    ),
    Case("B28", "zip_overlap_bomb", overlapping_zip(), reject("E_BOMB"), file="t.zip", forms=False),
    Case("B29", "gz_bomb", lambda: gz(b" " * (80 << 20), level=9), reject("E_BOMB"), forms=False),
    Case(
        "B29-json",
        "gz_bomb_in_string",
        lambda: gz(G0[:-3] + b" " * (80 << 20) + b"}", level=9),
        reject("E_BOMB"),
        forms=False,
    ),
    Case(
        "B29-members",
        "zip_too_many_members",
        zipped({f"{i}.json": G0 for i in range(65)}),
        reject("E_ZIP", "members"),
        file="t.zip",
        forms=False,
    ),
    Case(
        "B31-small",
        "big_scaled",
        lambda: gn(3000).bytes(),
        accept(),
        lambda opened: scaled(opened, 3000),
    ),
    Case(
        "B31-limit",
        "bytes_limit",
        gn_text,
        reject("E_TOO_BIG", "limit"),
        limits={"bytes": 100_000},
        forms=False,
    ),
    Case(
        "B32-small",
        "big_offset_scaled",
        lambda: padded_error(5 << 20)[0],
        recover(11, 12, event_unparsable=1),
        both(is_t0, error_at(padded_error(5 << 20)[1])),
        same_as=G0,
    ),
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
    Case(
        "B42-0",
        "directory_without_traces",
        None,
        reject("E_NO_EVENTS"),
        place=folder_of(),
        forms=False,
    ),
    Case(
        "B42-1",
        "directory_with_one",
        None,
        accept(),
        is_t0,
        place=folder_of(t__json=G0),
        same_as=G0,
        forms=False,
    ),
    Case(
        "B42-8",
        "directory_with_eight",
        None,
        several(*(f"rank{i}.json" for i in range(8))),
        place=folder_of(**{f"rank{i}__json": rank_doc(i).bytes() for i in range(8)}),
        forms=False,
    ),
    Case(
        "B43-zero",
        "device",
        None,
        reject("E_NOT_REGULAR"),
        place=lambda folder: "/dev/zero",
        forms=False,
    ),
    Case("B43-fifo", "fifo", None, reject("E_NOT_REGULAR"), place=fifo, forms=False),
    Case("B43-socket", "socket", None, reject("E_NOT_REGULAR"), place=unix_socket, forms=False),
    Case("B44-loop", "symlink_loop", None, reject("E_UNREADABLE"), place=link_loop, forms=False),
    Case("B44", "symlink", None, accept(), is_t0, place=link_to_trace, same_as=G0, forms=False),
    Case(
        "B46-enoent",
        "missing",
        None,
        reject("E_UNREADABLE", "not_there.json"),
        place=missing,
        forms=False,
    ),
    # Reading this file at byte 0 gives EIO on Linux, whoever reads it.
    Case(
        "B46-eio",
        "io_error",
        None,
        reject("E_UNREADABLE"),
        place=lambda folder: "/proc/self/mem",
        forms=False,
    ),
    Case(
        "B47", "odd_file_name", None, accept(), is_t0, place=odd_name(G0), same_as=G0, forms=False
    ),
    Case(
        "B47-bad",
        "odd_file_name_rejected",
        None,
        reject("E_EMPTY"),
        place=odd_name(b""),
        forms=False,
    ),
    Case(
        "B48",
        "ansi_in_names",
        g0().edit(E7, name=ANSI).bytes(),
        accept(),
        both(is_t0, kernel_names(ANSI)),
    ),
    Case(
        "B48-raw",
        "ansi_in_names_raw",
        G0.replace(b'"sgemm"', raw_bytes(f'"{ANSI}"')),
        accept(control_char=1),
        both(is_t0, kernel_names(ANSI)),
    ),
]
if os.geteuid() != 0:  # root reads it all the same
    CASES.append(
        Case("B46", "unreadable", None, reject("E_UNREADABLE"), place=forbidden, forms=False)
    )
