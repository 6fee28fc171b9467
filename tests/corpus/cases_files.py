"""Files, folders, links and pipes."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from corpus.build import BASE_NS, E7, Doc, g0, gn, gz, raw_bytes
from corpus.cases import (
    G0,
    Case,
    Opened,
    accept,
    both,
    is_t0,
    kernel_names,
    recover,
    reject,
    several,
)
from corpus.cases_packed import gn_text, rank_doc

CUT_TAIL = G0[: G0.index(b"\n  ],")]


def cut_whole() -> bytes:
    """The first 600 launches of Gn(1000), as a well-formed document."""
    return Doc(gn(600).events[: 3 + 5 * 600]).bytes()


def cut_between_events() -> bytes:
    """Gn(1000), cut right after a `},`."""
    whole = cut_whole()
    return whole[: whole.index(b"\n  ],")] + b",\n"


def padded_error(padding: int) -> tuple[bytes, int]:
    """A record that cannot be parsed, behind `padding` blanks, and the byte where it starts."""
    head, tail = G0[: G0.index(b"\n  ],")], G0[G0.index(b"\n  ],") :]
    before = head + b",\n" + b" " * padding
    return before + b'{"ph": "X", "ts": -1.-05, "dur": }' + tail, len(before)


def says_export(opened: Opened) -> None:
    is_t0(opened)
    texts = " ".join(note.text for note in opened.ledger.notes)
    assert "export" in texts, "the note names the export that was killed"


def b09_base(opened: Opened) -> None:
    is_t0(opened)
    assert opened.kernels[0]["ts_ns"] == BASE_NS + 1_200_000


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


ANSI = "\x1b[2J\x1b]0;owned\x07sgemm"

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
    Case("B07", "missing_tail", CUT_TAIL, recover(11, 11, trace_truncated=1), same_as=G0),
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
    Case("B08-whole", "leftover_tmp_whole", G0, accept(), file="t.json.tmp"),
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
    Case("B11", "json_named_gz", G0, accept(), file="t.json.gz"),
    Case("B11-not", "gz_named_json", gz(G0), accept(), file="t.json"),
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
    Case("B44", "symlink", None, accept(), place=link_to_trace, same_as=G0, forms=False),
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
    Case("B47", "odd_file_name", None, accept(), place=odd_name(G0), same_as=G0, forms=False),
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
