"""Gzip, zstd and zip files."""

from __future__ import annotations

import importlib
import io
import struct
import sys
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from corpus.build import BASE_NS, Doc, gn, gz, interleave
from corpus.cases import ANY, G0, Case, Opened, accept, is_t0, recover, reject, several

ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"

GN_EVENTS = 5 * 1000 + 6


@cache
def gn_text() -> bytes:
    return gn(1000).bytes()


@cache
def gn_gz() -> bytes:
    return gz(gn_text())


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


def b12_share(opened: Opened) -> None:
    good = opened.ledger.kept + opened.ledger.repaired
    assert good >= 0.45 * GN_EVENTS
    assert opened.totals["gpu_busy_ns"] == 50_000 * opened.totals["kernels"]


def thousand(opened: Opened) -> None:
    assert opened.totals["kernels"] == opened.totals["launches"] == 1000
    assert opened.totals["gpu_busy_ns"] == 50_000_000


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


def packed_by(module: str) -> Any:
    def make() -> bytes:
        return importlib.import_module(module).compress(G0)

    return make


HALF = len(G0) // 2

CASES = [
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
    Case("B16", "gz_multi_member", gz(G0[:HALF]) + gz(G0[HALF:]), accept(), forms=False),
    Case(
        "B17",
        "gz_two_docs",
        gz(rank_doc(0).bytes()) + gz(rank_doc(1).bytes()),
        recover(11, 11, one_of="interleaved_writers trailing_data", bytes_unread=1),
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
        same_as=G0,
        forms=False,
    ),
    Case("B22", "gz_header_name", gz(G0, name=b"../../etc/cron.d/x"), accept(), forms=False),
    Case("B23", "double_gz", gz(gz(G0)), accept(), forms=False),
    Case("B23-three", "triple_gz", gz(gz(gz(G0))), reject("E_GZIP"), forms=False),
    Case(
        "B24",
        "zstd",
        packed_by(ZSTD),
        accept(),
        same_as=G0,
        file="t.json.zst",
        forms=False,
        needs=ZSTD,
    ),
    Case("B24-xz", "xz", packed_by("lzma"), accept(), same_as=G0, forms=False),
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
    Case("B27", "zip_slip", None, accept(), place=slip_members, same_as=G0, forms=False),
    Case(
        "B27-one",
        "zip_slip_one",
        zipped({"../../x.json": G0}, {"link.json": "/etc/passwd"}),
        accept(),
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
]
