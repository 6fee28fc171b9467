"""Odd files, folders, links and pipes; compressed files and archives; files of another format."""

from __future__ import annotations

import importlib
import io
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from corpus.build import BASE_NS, E7, Doc, g0, gn, gz, interleave
from corpus.cases import (
    ANY,
    G0,
    Case,
    Opened,
    accept,
    is_t0,
    recover,
    reject,
    several,
    shows,
)

ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
CUT_TAIL = G0[: G0.index(b"\n  ],")]
HALF = len(G0) // 2


@cache
def gn_text() -> bytes:
    return gn(400).bytes()


# ---- packed files


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def rank_doc(rank: int, launches: int = 1) -> Doc:
    """One rank of a set: its own process, its own time base, its own rank."""
    doc = gn(launches)
    for event in doc.events:
        if event["pid"] == 100:
            event |= {"pid": 100 + rank, "tid": 100 + rank}
    info = {"backend": "nccl", "rank": rank, "world_size": 8}
    base = BASE_NS + rank * 7_889_238_000_000_000
    return doc.head(distributedInfo=info, baseTimeNanoseconds=base)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, to: Any = None) -> bytes:
    buffer = to or io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


class Pipe(io.BytesIO):
    """A file without a position: `zipfile` then writes sizes behind each member."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError

    def seek(self, *_: int) -> int:
        raise OSError


def sizes_after(method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return zipped({"t.json": G0}, method, Pipe())


def zip64() -> bytes:
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive,
        archive.open(zipfile.ZipInfo("t.json"), "w", force_zip64=True) as member,
    ):
        member.write(G0)
    return buffer.getvalue()


ZIP = zipped({"t.json": G0})
RANKS_ZIP = zipped({f"rank{i}_trace.json": rank_doc(i).bytes() for i in range(8)})


def patched(field: int, value: bytes) -> bytes:
    """A zip of G0 with one field changed in its header and in its directory."""
    return changed(changed(ZIP, field, value), ZIP.index(b"PK\1\2") + field + 2, value)


def damaged_member() -> bytes:
    data = zipped({"t.json": gn_text()})
    return changed(data, data.index(b"PK\1\2") // 2, b"\xff" * 40)


def overlapping_zip() -> bytes:
    """Sixteen entries of the directory that all point at one compressed body."""
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    plain = G0 + b" " * 1_000_000
    packed = body.compress(plain) + body.flush()
    about = struct.pack("<HHHH", 0, 8, 0, 0x21)
    about += struct.pack("<III", zlib.crc32(plain), len(packed), len(plain))
    names = [f"rank{i:02}.json".encode() for i in range(16)]
    local = b"PK\3\4" + struct.pack("<H", 20) + about + struct.pack("<HH", 11, 0) + names[0]
    head = b"PK\1\2" + struct.pack("<HH", 20, 20) + about
    rest = struct.pack("<HHHHHII", 11, 0, 0, 0, 0, 0, 0)
    directory = b"".join(head + rest + name for name in names)
    counts = (0, 0, 16, 16, len(directory), len(local) + len(packed), 0)
    return local + packed + directory + b"PK\5\6" + struct.pack("<HHHHIIH", *counts)


def packed_by(module: str) -> Callable[[], bytes]:
    return lambda: importlib.import_module(module).compress(G0)


def most_was_saved(opened: Opened) -> None:
    """Half of the packed bytes hold at least 45% of the 2,006 events."""
    assert opened.ledger.kept + opened.ledger.repaired >= 900
    assert opened.totals["gpu_busy_ns"] == 50_000 * opened.totals["kernels"]


def few_are_spliced(opened: Opened) -> None:
    """What was saved is what one of the writers wrote, but for at most one record a block, which is
    spliced from two: a splice at the end of a line can be well formed.
    """
    blocks = 2 * (len(rank_doc(0, 150).bytes()) // 8192 + 1)
    starts = {1_200_000 + 300_000 * i for i in range(150)}
    assert 300 - blocks <= len(opened.kernels) <= 300
    sound = [
        (kernel["name"], kernel["dur_ns"]) == ("sgemm", 50_000)
        and (kernel["ts_ns"] - BASE_NS) % 7_889_238_000_000_000 in starts
        for kernel in opened.kernels
    ]
    assert sound.count(False) <= blocks


# ---- places


def folder_of(**files: bytes) -> Any:
    """A folder with junk and the given files; `__` in a name stands for a dot."""

    def place(folder: Path) -> Path:
        inside = folder / "traces"
        (inside / "sub").mkdir(parents=True)
        (inside / "notes.txt").write_text("nothing to see")
        (inside / "server_args.json").write_text('{"model": "x"}')
        for name, content in files.items():
            (inside / name.replace("__", ".")).write_bytes(content)
        return inside

    return place


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def links(target: str) -> Any:
    """A link to a trace, or to itself."""

    def place(folder: Path) -> Path:
        (folder / "real.json").write_bytes(G0)
        (folder / "link.json").symlink_to(folder / target)
        return folder / "link.json"

    return place


def odd_name(content: bytes) -> Any:
    def place(folder: Path) -> str:
        path = os.path.join(os.fsencode(folder), b"a b'\"<img>&\n\xff.json")
        Path(os.fsdecode(path)).write_bytes(content)
        return os.fsdecode(path)

    return place


def member(name: str, archive: bytes) -> Any:
    def place(folder: Path) -> str:
        (folder / "ranks.zip").write_bytes(archive)
        return f"{folder / 'ranks.zip'}::{name}"

    return place


def forbidden(folder: Path) -> Path:
    (folder / "t.json").write_bytes(G0)
    (folder / "t.json").chmod(0)
    return folder / "t.json"


def is_rank_3(opened: Opened) -> None:
    assert opened.doc["trace"]["rank"] == 3


def says_export(opened: Opened) -> None:
    texts = " ".join(note.text for note in opened.ledger.notes)
    assert "export" in texts, "the note names the export that was killed"


def says_where(opened: Opened) -> None:
    """The byte of a record behind five MiB of blanks."""
    note = next(note for note in opened.ledger.notes if note.code == "event_unparsable")
    assert note.where[0][0] == len(CUT_TAIL) + 2 + (5 << 20)


class Pwned:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch pwned",)


BAD = b'{"ph": "X", "ts": -1.-05, "dur": }'
ANSI = "\x1b[2J\x1b]0;owned\x07sgemm"
SLIP = zipped({"../../x.json": G0, "/etc/x": rank_doc(1).bytes(), "C:\\x": rank_doc(2).bytes()})
# XSpace: a plane (1) with an id (1), a name (2) and lines (3), twice
XPLANE = b"\n\x11\x08\x01\x12\x09/host:CPU\x1a\x02\x08\x07\n\x11\x08\x02\x12\x0d/device:GPU:0"
EXECUTION = b'{"schema": "1.0.1", "pid": 1, "start_ts": 5, "nodes": [{"id": 1, "name": "[x]"}]}'
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"
LOST: dict[str, Any] = {"check": None, "compared": False}
SOUND: dict[str, Any] = {"same_as": G0}

CASES = [
    Case("B01 empty_file", b"", reject("E_EMPTY")),
    Case("B03 cut_in_header", G0[: G0.index(b'"traceEvents"') - 3],
         reject("E_NO_EVENTS", "cut in the header")),
    Case("B04 cut_between_events", lambda: gn_text()[: gn_text().rindex(b"\n  ],")] + b",\n",
         recover(2006, 2006, trace_truncated=1), shows(n_kernels=400, gpu_busy_ns=20_000_000),
         same_as=gn_text),
    Case("B08 leftover_tmp", CUT_TAIL, recover(11, 11, trace_truncated=1),
         shows(is_t0, says_export), same_as=G0, file="t.json.tmp"),
    Case("B08-dir leftover_tmp_in_folder", None, recover(11, 11, trace_truncated=1),
         shows(is_t0, says_export), place=folder_of(t__json__tmp=CUT_TAIL), same_as=G0),
    Case("B31 bytes_limit", gn_text, reject("E_TOO_BIG", "limit"), limits={"bytes": 100_000}),
    Case("B32 offset", lambda: CUT_TAIL + b",\n" + b" " * (5 << 20) + BAD + G0[len(CUT_TAIL) :],
         recover(11, 12, event_unparsable=1), shows(is_t0, says_where), same_as=G0),
    # gzip
    Case("B12 gz_truncated", lambda: gz(gn_text())[: len(gz(gn_text())) // 2],
         recover(None, None, gzip_truncated=1, may="trace_truncated"), most_was_saved,
         compared=False),
    Case("B14 gz_bad_crc", lambda: changed(gz(gn_text()), -8, b"abcd"),
         recover(2006, 2006, gzip_crc=1), shows(n_kernels=400), same_as=gn_text),
    Case("B16 gz_multi_member", gz(G0[:HALF]) + gz(G0[HALF:]), accept()),
    Case("B17 gz_two_docs", gz(rank_doc(0).bytes()) + gz(rank_doc(1).bytes()),
         recover(11, 11, bytes_unread=1, may="interleaved_writers trailing_data"), same_as=G0),
    Case("B18 gz_interleaved",
         lambda: interleave([gz(rank_doc(i, 1000).bytes(), level=1) for i in range(4)], 4096),
         reject("E_GZIP", "several ranks")),
    Case("B19 json_interleaved",
         lambda: interleave([rank_doc(i, 150).bytes() for i in range(2)], 8192),
         recover(None, None, interleaved_writers=ANY, may="*"), few_are_spliced, compared=False),
    Case("B21 gz_trailing_garbage", gz(G0) + b"garbage", accept(gzip_trailing=1), **SOUND),
    Case("B23-three triple_gz", gz(gz(gz(G0))), reject("E_GZIP")),
    Case("B29 gz_bomb", lambda: gz(b" " * (80 << 20), level=9), reject("E_BOMB")),
    # other compressions
    Case("B24 zstd", packed_by(ZSTD), accept(), needs=ZSTD, file="t.json.zst", **SOUND),
    Case("B24-bz2 bz2", packed_by("bz2"), reject("E_WRONG_FORMAT", "bz")),
    Case("B65 zstd_window_of_2_TiB", b"\x28\xb5\x2f\xfd\0\xf8\1\0\0" + G0,
         reject("E_GZIP", "zstd"), needs=ZSTD),
    # zip
    Case("B26 zip_many", RANKS_ZIP, several(*(f"rank{i}_trace.json" for i in range(8))),
         file="t.zip"),
    Case("B26-one zip_one", zipped({"t.json.gz": gz(G0), "notes.txt": b"hello"}), accept(),
         file="t.zip", **SOUND),
    Case("B26-member zip_member", None, accept(), shows(is_t0, is_rank_3), same_as=rank_doc(3),
         place=member("rank3_trace.json", RANKS_ZIP)),
    Case("B26-cut zip_cut", RANKS_ZIP[: len(RANKS_ZIP) // 2], reject("E_ZIP"), file="t.zip"),
    Case("B27 zip_slip", None, accept(), place=member("../../x.json", SLIP), **SOUND),
    Case("B28 zip_overlap_bomb", overlapping_zip(), reject("E_BOMB"), file="t.zip"),
    Case("B56 zip_bzip2", zipped({"t.json": G0}, zipfile.ZIP_BZIP2),
         reject("E_NO_EVENTS", "bzip2", "only stored and deflated"), file="t.zip"),
    Case("B57 zip_encrypted", patched(6, b"\1\0"), reject("E_NO_EVENTS", "encrypted"),
         file="t.zip"),
    Case("B59 zip_bad_sum", patched(14, b"\1\2\3\4"), recover(11, 11, gzip_crc=1), file="t.zip",
         **SOUND),
    Case("B59-damaged zip_damaged_member", damaged_member,
         recover(None, None, gzip_crc=1, may="*"), file="t.zip", **LOST),
    Case("B61 zip64_in_gz", gz(zip64()), accept(), **SOUND),
    Case("B62-gz zip_sizes_after_in_gz", gz(sizes_after()), accept(), **SOUND),
    Case("B62-stored zip_stored_without_size_in_gz", gz(sizes_after(zipfile.ZIP_STORED)),
         reject("E_ZIP", "does not state its size")),
    Case("B63 zip_in_zip", zipped({"a.zip": ZIP}), accept(), file="t.zip", **SOUND),
    # another format
    Case("B33 snapshot", pickle.dumps({"segments": [], "device_traces": []}, 4),
         reject("E_PICKLE"), file="snapshot.pickle"),
    Case("B34 pickle_named_json", pickle.dumps(Pwned(), 4), reject("E_PICKLE")),
    Case("B37 ncu_rep", b"NVR\0" + bytes(range(60)), reject("E_WRONG_FORMAT", "nsight compute"),
         file="t.ncu-rep"),
    Case("B37-xplane xplane", XPLANE, reject("E_WRONG_FORMAT", "xplane"), file="t.xplane.pb"),
    Case("B38 execution_trace", EXECUTION,
         reject("E_WRONG_FORMAT", "execution trace", "not a profiler trace")),
    Case("B39 memory_timeline", gz(b"[[1,2,3],[[0,0,0],[16,32,16]]]"),
         reject("E_WRONG_FORMAT", "memory timeline"), file="t.json.gz"),
    Case("B41 lfs_pointer", LFS, reject("E_NOT_A_TRACE", "git lfs pointer")),
    # places
    Case("B42 folder_without_traces", None, reject("E_NO_EVENTS"), place=folder_of()),
    Case("B42-1 folder_with_one", None, accept(), place=folder_of(t__json=G0), same_as=G0),
    Case("B43 device", None, reject("E_NOT_REGULAR"), place=lambda _: "/dev/zero"),
    Case("B43-fifo fifo", None, reject("E_NOT_REGULAR"), place=fifo),
    Case("B44 symlink", None, accept(), place=links("real.json"), same_as=G0),
    Case("B44-loop symlink_loop", None, reject("E_UNREADABLE"), place=links("link.json")),
    Case("B46 missing", None, reject("E_UNREADABLE", "none.json"), place=lambda to: to / "none.json"),
    # reading this file at byte 0 gives EIO on Linux, whoever reads it
    Case("B46-eio io_error", None, reject("E_UNREADABLE"), place=lambda _: "/proc/self/mem"),
    Case("B47 odd_file_name", None, accept(), place=odd_name(G0), same_as=G0),
    Case("B48 ansi_in_names", g0().edit(E7, name=ANSI), accept(),
         shows(is_t0, kernels={"name": [ANSI]})),
]  # fmt: skip
if os.geteuid() != 0:  # root reads it all the same
    CASES.append(Case("B46-mode unreadable", None, reject("E_UNREADABLE"), place=forbidden))
