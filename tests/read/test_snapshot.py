"""Snapshots of the allocator: every format gives the same tables, and a hostile file one line."""

from __future__ import annotations

import copy
import gzip
import io
import lzma
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drawn_snapshot import BACKWARD, BUILD, MODEL, DrawnSnapshot
from foretrace.base.budget import Limits
from foretrace.base.errors import ForetraceError, LimitError, TraceError
from foretrace.memory import memory_document
from foretrace.read import unpickle
from foretrace.read.snapshot import Snapshot, read_snapshot
from read.snapshots import RECORDED, from_tree, pickled, recorded, resolved, small_tree
from sweep import looped

PROTOCOLS = [(protocol, False) for protocol in range(6)] + [(2, True), (4, True)]


def read(raw: bytes, folder: Path, **limits: int) -> Snapshot:
    path = folder / "snapshot.pickle"
    path.write_bytes(raw)
    return read_snapshot(str(path), Limits(**limits))


def refusal(raw: bytes, folder: Path, **limits: int) -> str:
    """The one line that refuses a file; empty where it is read."""
    try:
        read(raw, folder, **limits)
    except TraceError as problem:
        line = str(problem)
        assert "\n" not in line
        assert line.startswith(str(folder))
        return line
    return ""


@pytest.mark.parametrize("name", ["train", "inference", "oom"])
def test_recorded_snapshots_are_read_as_unpickled(name: str) -> None:
    want = from_tree(name, pickle.loads(recorded(name)))
    assert resolved(read_snapshot(str(RECORDED / f"{name}.pickle.xz"))) == resolved(want)


@pytest.mark.parametrize(("protocol", "fast"), PROTOCOLS)
def test_every_protocol_gives_the_same_tables(protocol: int, fast: bool, tmp_path: Path) -> None:
    """A fast pickle writes what is shared again and again."""
    tree = small_tree()
    got = read(pickled(tree, protocol, fast=fast), tmp_path)
    assert resolved(got) == resolved(from_tree("tree", tree))


def test_events_that_differ_in_shape(tmp_path: Path) -> None:
    """Several devices, keys that some events lack, numbers of every width, what is no record."""
    tree = small_tree(300)
    events = tree["device_traces"][0]
    for at, event in enumerate(events):
        event["size"] = 1 << (at % 50)
        if at % 7 == 0:
            event["device_free"] = None if at % 2 else 0.5
        if at % 11 == 0:
            del event["frames"]
        if at % 13 == 0:
            event["frames"] = event.get("frames", [])[:1]
    events[40]["addr"], events[41]["time_us"], events[42]["size"] = -1, 1 << 70, "large"
    events[43]["action"], events[44] = ["alloc"], {"device_free": 5}
    events[50]["frames"] = [*events[50]["frames"] * 60, 3]
    tree["device_traces"] = [[dict(each) for each in events[:10]], [], events, [None, 3, {}], 7]
    got = read(pickled(tree, 4), tmp_path)
    assert got.lost == {
        "events with a number that cannot be one": 3,
        "events that are no records": 2,
        "frames that are no records": 1,
        "devices without a list of events": 1,
    }
    assert [(each.device, len(each)) for each in got.histories] == [(0, 10), (2, 297), (3, 1)]
    third = got.histories[1]
    sound = [event for at, event in enumerate(events) if at not in (40, 41, 42)]
    assert third.size.tolist() == [event.get("size", 0) for event in sound]
    assert third.addr[41] == 5
    assert third.action[40] == 9
    lines = [got.frames[at].line for at in got.stacks[third.stack[47]]]
    assert lines == [each["line"] for each in events[50]["frames"][:-1]]


def test_packed_snapshots_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = pickled(small_tree(50), 4)
    want = resolved(read(raw, tmp_path))
    for packed in (gzip.compress(raw), lzma.compress(raw)):
        assert resolved(read(packed, tmp_path)) == want
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert resolved(read_snapshot("-")) == want


def test_what_is_no_snapshot_or_cut_short_is_refused(tmp_path: Path) -> None:
    for raw in (b"hello", pickled([1, 2], 4), pickled({"segments": 3}, 2)):
        assert "not an allocator snapshot: " in refusal(raw, tmp_path)
    whole = pickled(small_tree(), 4)
    for raw in (b"", b"\x80\x04", whole[:-1], whole[: len(whole) // 2], b"\x80\x04" + b"(" * 10**6):
        assert "the pickle is cut short" in refusal(raw, tmp_path)
    assert read(whole + b"more", tmp_path).lost == {"bytes after the end of the snapshot": 4}


def test_limits_stop_the_reading(tmp_path: Path) -> None:
    raw = pickled(small_tree(), 4)
    assert "more than 100 events [E_TOO_MANY]" in refusal(raw, tmp_path, events=100)
    assert "E_TOO_BIG" in refusal(raw, tmp_path, bytes=1000)
    with pytest.raises(LimitError, match=r"a snapshot of 1.00 MB that needs more than 20.0 MB of"):
        read(HEAD + b"]" * 1_000_000, tmp_path, memory=20_000_000)


class Evil:
    """Pickles as a call that leaves a folder behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_executed(protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "executed"
    raw = pickled({"segments": [], "device_traces": [[Evil(target)]]}, protocol)
    assert "the name of a class or a function [E_PICKLE]" in refusal(raw, tmp_path)
    assert not target.exists()
    pickle.loads(raw)
    assert target.exists()  # the file does it, where nobody prevents it


def test_a_module_of_the_current_folder_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pickle", "json", "array", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("import os; os.mkdir('executed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert len(read(pickled(small_tree(50), 4), tmp_path).histories[0]) == 50
    assert not (tmp_path / "executed").exists()


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def equal_hashes(count: int) -> bytes:
    """Integer keys of one hash: to put them into a dict takes quadratic time."""
    made = []
    for at in range(1, count + 1):
        number = at * ((1 << 61) - 1)
        raw = number.to_bytes(number.bit_length() // 8 + 1, "little")
        made.append(b"\x8a%c" % len(raw) + raw + b"N")
    return b"".join(made)


HEAD = b"\x80\x04}\x94(\x8c\x08segments]\x94\x8c\x0ddevice_traces]\x94"
EVENT = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x08\x8c\x07time_usK\x05u"
ONE = HEAD + b"](" + EVENT
SEGMENT = b"}(\x8c\x06deviceK\0\x8c\x07addressK\0\x8c\x0atotal_sizeK\0\x8c\x06streamK\0u"
SHARED = SEGMENT[:-1] + b"\x8c\x06blocks](}\x8c\x04sizeK\x01s" + b"2" * 9_999 + b"e\x94u"
DEEP = b"]" * 50_000 + b"a" * 49_999
NESTED = b"}\x8c\x06frames](K\x01" + DEEP + b"K\x01K\x01es"
NAME, OUTSIDE = "with the name of a class or a function", "with data outside the file"
BROKEN, MEMORY, SLOW = "the pickle cannot be read", "E_TOO_MUCH_MEMORY", "E_TOO_SLOW"

# a file, and what the one line says; empty where it is read, perhaps without its damaged records
CASES: dict[str, tuple[bytes, str]] = {
    "stack_global": (ONE + b"\x8c\x02os\x8c\x06system\x93)Reau.", NAME),
    "inst": (ONE + b"(ios\nsystem\n.", NAME),
    "persid": (ONE + b"Pevil\n.", OUTSIDE),
    "next_buffer": (ONE + b"\x97.", BROKEN),
    "reduce_of_data": (ONE + b")R.", BROKEN),
    "extension_1": (ONE + b"\x82\x01.", BROKEN),
    "set": (ONE + b"\x8f(K\x01\x90.", "it has no segments"),
    "deep_lists": (HEAD + b"](" + EVENT + b"]" * 100_000 + b"a" * 99_999 + b"eau.", ""),
    "deep_key": (HEAD + b")" + b"\x85" * 900_000 + b"Nu.", "not an allocator snapshot: "),
    "doubling_key": (ONE + b"ea)" + b"2\x86" * 60 + b"Nu.", SLOW),
    "equal_hashes": (HEAD + equal_hashes(40_000) + b"u.", SLOW),
    "absent_memo": (ONE + b"j" + u32(1 << 31) + b".", BROKEN),
    "far_put": (ONE + b"K\x01r" + u32((1 << 32) - 1) + b"eau.", MEMORY),
    "many_lists": (HEAD + b"]" * 3_000_000, MEMORY),
    "list_as_key": (ONE + b"}]K\x01s.", BROKEN),
    "text8_length": (ONE + b"\x8d" + u64(1 << 40), "states a length"),
    "bytes8_length": (ONE + b"\x8e" + u64(10**9), MEMORY),
    "long4_length": (ONE + b"\x8b" + u32(10**9), "states a length"),
    "frame_length": (b"\x80\x04\x95" + u64(1 << 40) + ONE[2:] + b"eau.", "states a length"),
    "frames_of_nothing": (b"\x80\x04" + (b"\x95" + u64(0)) * 90_000 + ONE[2:] + b"eau.", ""),
    "large_number": (ONE + b"\x8b" + u32(1 << 20) + b"\x7f" * (1 << 20) + b"eau.", ""),
    "long_digits": (ONE + b"L" + b"9" * 100_000 + b"L\neau.", BROKEN),
    "float_words": (ONE + b"F__import__('os')\neau.", BROKEN),
    "old_text": (ONE + b"S'\\x41\\xff'\neau.", ""),
    "line_without_end": (ONE + b"V" + b"a" * 100_000, "cut short"),
    "invalid_utf8": (ONE + b"\x8c\x01\xff.", BROKEN),
    "surrogate": (HEAD + b"ea\x8c\x0ballocator_s\x8c\x03\xed\xa0\x80u.", BROKEN),
    "unknown_opcode": (ONE + b"\xfe", BROKEN),
    "recursive_list": (ONE + b"]\x94h\x03aeau.", ""),
    "recursive_frames": (ONE + b"}\x8c\x06frames]\x94h\x03aseau.", ""),
    "event_as_frame": (ONE + b"}\x94\x8c\x06frames](h\x03h\x03eseau.", ""),
    "nested_frames": (HEAD + b"](" + NESTED * 2 + b"eau.", "its frames hold frames"),
    "settings_of_lists": (ONE + b"ea\x8c\x12allocator_settings}(K\x01]\x8c\x01a]uu.", ""),
    "segments_in_a_row": (b"\x80\x04}(\x8c\x08segments](" + SEGMENT + b"2" * 2_000 + b"eu.", ""),
    "shared_blocks": (
        b"\x80\x04}(\x8c\x08segments](" + SHARED + b"2" * 99_999 + b"eu.",
        "one list stands in many places",
    ),
    "shared_device": (
        HEAD + b"(](" + EVENT + b"2" * 9_999 + b"e" + b"2" * 99_999 + b"eu.",
        "one list stands in many places",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_hostile_pickles_are_one_line(name: str, tmp_path: Path) -> None:
    """A second of CPU time is enough for a sound file of that size."""
    raw, says = CASES[name]
    line = refusal(raw, tmp_path, seconds=1)
    assert says in line
    assert bool(line) == bool(says)


def test_limits_of_a_small_file_keep_it_small() -> None:
    """Less than 300 MB and 5 s for one MB, and enough for a sound snapshot of any size."""
    assert unpickle.memory_limit(10**6) < 150 << 20
    assert unpickle.seconds_limit(10**6) <= 3
    assert unpickle.memory_limit(10**9) > 10 * 10**9
    assert unpickle.seconds_limit(10**9) > 200


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    """A feeder that never ends is interrupted; the process that unpickles ends with ours."""
    code = (
        "import os, signal, subprocess, sys, foretrace.read.snapshot as it\n"
        "start, made = subprocess.Popen, []\n"
        "it.subprocess.Popen = lambda *a, **b: made.append(start(*a, **b)) or made[0]\n"
        "def blocks():\n"
        "    yield b'\\x80\\x04]'\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    while True: yield b']' * 100\n"
        "stream = it.open_stream\n"
        "def endless(*given):\n"
        "    made = stream(*given); made.blocks = blocks(); return made\n"
        "it.open_stream = endless\n"
        "try: it.read_snapshot(sys.argv[1])\n"
        "except KeyboardInterrupt: print(made[0].poll())\n"
    )
    (tmp_path / "a.pickle").write_bytes(b"\x80\x04")
    words = [sys.executable, "-c", code, str(tmp_path / "a.pickle")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "-9"


# values that a field may have instead of its own
ODD: tuple[Any, ...] = (
    *(None, True, -1, 1 << 70, (1 << 63) - 1, 1.5, float("nan"), "\ud800\x1b[31m", b"x"),
    *([], {}, [None]),
)


def full_tree() -> dict[str, Any]:
    """A drawn snapshot in which every field has a value."""
    drawn = DrawnSnapshot(expandable_segments=False)
    weight = drawn.alloc(1000, BUILD)
    drawn.segment(1 << 20)
    for _ in range(2):
        made = drawn.alloc(4096, MODEL), drawn.alloc(999, BACKWARD)
        drawn.step()
        drawn.free(*made)
    drawn.oom(1 << 20)
    drawn.owners.append([weight, 1000, "parameter", "w.weight", "torch.float32"])
    tree = copy.deepcopy(drawn.tree())
    tree["foretrace"].update(card="NVIDIA H200", card_bytes=1 << 34)
    tree["segments"][0].update(segment_pool_id=(0, 0), is_expandable=False)
    return tree


def fields(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a tree; of a list the first item."""
    keys = list(node) if isinstance(node, dict) else [0] if isinstance(node, list) and node else []
    for key in keys:
        yield (*place, key)
        yield from fields(node[key], (*place, key))


@looped("place", list(fields(full_tree())), ids=str)
def test_a_wrong_type_in_any_field_is_counted_or_one_line(place: tuple[Any, ...]) -> None:
    for odd in ODD:
        tree = full_tree()
        node: Any = tree
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = odd
        with suppress(ForetraceError, unpickle.Refused):
            msgspec.json.encode(memory_document(from_tree("tree", tree)))
