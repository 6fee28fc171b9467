"""Containers that lie, break in the middle, hold each other, or are packed by rare methods."""

from __future__ import annotations

import io
import struct
import zipfile

from corpus.build import gz
from corpus.cases import ANY, G0, Case, accept, recover, reject
from corpus.cases_packed import HALF, ZSTD, gn_text, packed_by, zipped

HEAD = b"\x1f\x8b\x08"
THIRD = len(gn_text()) // 3


def damaged_between() -> bytes:
    """Three members, the second with wrong bytes in its middle."""
    parts = [gz(gn_text()[at : at + THIRD + 1]) for at in range(0, len(gn_text()), THIRD + 1)]
    middle = len(parts[1]) // 2
    parts[1] = parts[1][:middle] + b"\xff" * 40 + parts[1][middle + 40 :]
    return b"".join(parts)


def every_header_field() -> bytes:
    """Extra bytes, a name of 70 kB, a comment and a header checksum."""
    extra = struct.pack("<H", 300) + b"e" * 300
    fields = extra + b"n" * 70_000 + b"\0" + b"comment\0" + b"\0\0"
    return HEAD + b"\x1e\0\0\0\0\0\xff" + fields + gz(G0)[10:]


def zip_with(method: int, content: bytes = G0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("t.json"), content, method)
    return buffer.getvalue()


def patched(field: int, value: bytes, directory_field: int | None = None) -> bytes:
    """A zip of G0 with one field changed in its header, or in its directory alone."""
    data = bytearray(zipped({"t.json": G0}))
    at = data.index(b"PK\1\2")
    if directory_field is None:
        data[field : field + len(value)] = value
        directory_field = field + 2
    data[at + directory_field : at + directory_field + len(value)] = value
    return bytes(data)


class Pipe(io.BytesIO):
    """A file without a position: `zipfile` then writes sizes behind each member."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError

    def seek(self, *_: int) -> int:
        raise OSError


def described_after(method: int = zipfile.ZIP_DEFLATED) -> bytes:
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("t.json"), G0, method)
    return pipe.getvalue()


def zip64() -> bytes:
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive,
        archive.open(zipfile.ZipInfo("t.json"), "w", force_zip64=True) as member,
    ):
        member.write(G0)
    return buffer.getvalue()


def bad_sum() -> bytes:
    return patched(14, b"\1\2\3\4")


def damaged_member() -> bytes:
    data = zip_with(zipfile.ZIP_DEFLATED, gn_text())
    middle = data.index(b"PK\1\2") // 2
    return data[:middle] + b"\xff" * 40 + data[middle + 40 :]


def zstd_frame(*, window: int = 0, dictionary: int | None = None) -> bytes:
    """The head of a frame that asks for 2**(10 + window) bytes, or for a dictionary."""
    flags = b"\0" if dictionary is None else b"\3"
    named = b"" if dictionary is None else dictionary.to_bytes(4, "little")
    return b"\x28\xb5\x2f\xfd" + flags + bytes([window << 3]) + named + b"\1\0\0"


def skippable_around() -> bytes:
    skipped = struct.pack("<II", 0x184D2A50, 70_000) + b"s" * 70_000
    return skipped + packed_by(ZSTD)() + skipped * 3


SOUND = {"forms": False, "same_as": G0}

CASES = [
    Case(
        "B50",
        "gz_damaged_between_members",
        damaged_between,
        recover(None, None, gzip_crc=1, may="*"),
        None,
        compared=False,
        forms=False,
    ),
    Case(
        "B51",
        "gz_garbage_between_members",
        gz(G0[:HALF]) + b"garbage" + gz(G0[HALF:]) + bytes(512) + b"more",
        accept(gzip_trailing=2),
        **SOUND,
    ),
    Case("B52", "gz_every_header_field", every_header_field(), accept(), **SOUND),
    Case(
        "B53",
        "gz_name_without_end",
        HEAD + b"\x08\0\0\0\0\0\xff" + b"a" * 600_000,
        reject("E_EMPTY"),
        forms=False,
    ),
    Case("B54", "gz_empty_members", gz(b"") * 3000 + gz(G0), accept(), **SOUND),
    Case(
        "B55",
        "gz_then_zstd",
        lambda: gz(G0) + packed_by(ZSTD)(),
        accept(gzip_trailing=1),
        needs=ZSTD,
        **SOUND,
    ),
    Case(
        "B56",
        "zip_bzip2",
        zip_with(zipfile.ZIP_BZIP2),
        reject("E_NO_EVENTS", "bzip2", "only stored and deflated"),
        file="t.zip",
        forms=False,
    ),
    Case(
        "B56-lzma",
        "zip_lzma",
        zip_with(zipfile.ZIP_LZMA),
        reject("E_NO_EVENTS", "LZMA", "only stored and deflated"),
        file="t.zip",
        forms=False,
    ),
    Case(
        "B56-unknown",
        "zip_unknown_method",
        patched(8, b"\x63\0"),
        reject("E_NO_EVENTS", "method 99"),
        file="t.zip",
        forms=False,
    ),
    Case(
        "B57",
        "zip_encrypted",
        patched(6, b"\1\0"),
        reject("E_NO_EVENTS", "encrypted"),
        file="t.zip",
        forms=False,
    ),
    Case(
        "B58",
        "zip_states_a_larger_file",
        patched(22, b"\0\0\0\x7f"),
        accept(),
        file="t.zip",
        **SOUND,
    ),
    Case(
        "B58-packed",
        "zip_states_fewer_packed_bytes",
        patched(0, b"\xd0\7\0\0", 20),
        recover(None, None, gzip_crc=1, may="*"),
        None,
        file="t.zip",
        compared=False,
        forms=False,
    ),
    Case("B59", "zip_bad_sum", bad_sum(), recover(11, 11, gzip_crc=1), file="t.zip", **SOUND),
    Case(
        "B59-damaged",
        "zip_damaged_member",
        damaged_member,
        recover(None, None, gzip_crc=1, may="*"),
        None,
        file="t.zip",
        compared=False,
        forms=False,
    ),
    Case(
        "B60",
        "zip_large_directory",
        lambda: zipped({f"{at:05}.json": b"" for at in range(3000)}),
        reject("E_ZIP", "directory", "--limit members"),
        file="t.zip",
        forms=False,
    ),
    Case("B61", "zip64", zip64(), accept(), file="t.zip", **SOUND),
    Case("B61-gz", "zip64_in_gz", gz(zip64()), accept(), **SOUND),
    Case("B62", "zip_sizes_after", described_after(), accept(), file="t.zip", **SOUND),
    Case("B62-gz", "zip_sizes_after_in_gz", gz(described_after()), accept(), **SOUND),
    Case(
        "B62-stored",
        "zip_stored_without_size_in_gz",
        gz(described_after(zipfile.ZIP_STORED)),
        reject("E_ZIP", "does not state its size"),
        forms=False,
    ),
    Case(
        "B63",
        "zip_in_zip",
        zipped({"a.zip": zipped({"t.json": G0})}),
        accept(),
        file="t.zip",
        **SOUND,
    ),
    Case(
        "B63-two",
        "two_in_zip_in_gz",
        gz(zipped({"a.json": G0, "b\x1b[2J.json": G0})),
        reject("E_ZIP", "several members: a.json, b\\x1b[2J.json"),
        forms=False,
    ),
    Case(
        "B63-cut",
        "zip_cut_in_gz",
        gz(zip_with(zipfile.ZIP_DEFLATED, gn_text())[:20_000]),
        recover(None, None, gzip_truncated=ANY, may="*"),
        None,
        compared=False,
        forms=False,
    ),
    Case(
        "B64",
        "zip_name_with_control_characters",
        zipped({"a\nb\x1b[2J.json": G0}),
        accept(),
        file="t.zip",
        **SOUND,
    ),
    Case(
        "B64-empty",
        "zip_member_without_a_name",
        zipped({"": G0}),
        reject("", "t.zip"),
        file="t.zip",
        forms=False,
    ),
    Case("B65", "zstd_skippable_frames", skippable_around, accept(), needs=ZSTD, **SOUND),
    Case(
        "B65-window",
        "zstd_window_of_2_TiB",
        zstd_frame(window=31) + G0,
        reject("E_GZIP", "zstd"),
        needs=ZSTD,
        forms=False,
    ),
    Case(
        "B65-dictionary",
        "zstd_unknown_dictionary",
        zstd_frame(dictionary=7) + G0,
        reject("E_GZIP", "zstd"),
        needs=ZSTD,
        forms=False,
    ),
    Case(
        "B66",
        "utf16_cut_inside_a_character",
        G0.decode().encode("utf-16")[:-3],
        recover(11, 11, bom=1, bad_utf8=1, trace_truncated=1, may="repaired_header"),
        compared=False,
        forms=False,
    ),
]
