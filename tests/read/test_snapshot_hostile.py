"""Hostile and damaged snapshots: nothing runs, nothing grows, and an error is one line."""

from __future__ import annotations

import builtins
import copyreg
import io
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.read.snapshot import from_tree, read_snapshot
from foretrace.schema.snapshot import Snapshot
from read.snapshots import pickled, resolved, tiny_tree

MOST = 96 << 20  # bytes that a hostile file may take


def fired(*_: object) -> dict[str, Any]:
    """What must never be called."""
    raise AssertionError("a pickle was executed")


class Evil:
    """Pickles as a call."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return fired, ()


class New:
    """Pickles as an object with state."""

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, int]]:
        return (), {"a": 1}


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


HEAD = b"\x80\x04}\x94(\x8c\x08segments]\x94\x8c\x0ddevice_traces]\x94"
EVENT = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x08\x8c\x07time_usK\x05u"
ONE = HEAD + b"](" + EVENT
FIRE = b"cread.test_snapshot_hostile\nfired\n"
STACK_FIRE = b"\x8c\x1aread.test_snapshot_hostile\x8c\x05fired\x93"
SEGMENT = b"}(\x8c\x06deviceK\0\x8c\x07addressK\0\x8c\x0atotal_sizeK\0\x8c\x06streamK\0u"

# a name, the file, and what the one line says; None for a snapshot that lost something
CASES: list[tuple[str, bytes, str | None]] = [
    ("reduce", pickle.dumps(Evil(), 2), "a pickle with the name of"),
    ("reduce_4", pickle.dumps(Evil(), 4), "a pickle with the name of"),
    ("reduce_0", pickle.dumps(Evil(), 0), "a pickle with the name of"),
    ("global_in_event", ONE + FIRE + b")R" + b"ea" + b"u.", "a pickle with the name of"),
    ("stack_global", ONE + STACK_FIRE + b")Rea" + b"u.", "a pickle with the name of"),
    ("reduce_only", ONE + b")R.", "a pickle with a call"),
    ("inst", ONE + b"(iread.test_snapshot_hostile\nfired\n.", "an object of a class"),
    ("obj", ONE + b"(" + FIRE + b"o.", "the name of"),
    ("obj_only", ONE + b"(o.", "an object of a class"),
    ("newobj", pickle.dumps(New(), 2), "the name of"),
    ("newobj_ex", pickle.dumps(New(), 4), "the name of"),
    ("newobj_only", ONE + b")\x81.", "an object of a class"),
    ("newobj_ex_only", ONE + b")}\x92.", "an object of a class"),
    ("ext1", ONE + b"\x82\x01.", "a registered extension"),
    ("ext2", ONE + b"\x83\x01\x00.", "a registered extension"),
    ("ext4", ONE + b"\x84\x01\x00\x00\x00.", "a registered extension"),
    ("persid", ONE + b"Pevil\n.", "data outside the file"),
    ("binpersid", ONE + b"K\x01Q.", "data outside the file"),
    ("build_on_dict", ONE + b"}}b.", "the state of an object"),
    ("set", ONE + b"\x8f(K\x01\x90.", "a set"),
    ("frozenset", ONE + b"(K\x01\x91.", "a set"),
    ("next_buffer", ONE + b"\x97.", "data outside the file"),
    ("readonly_buffer", ONE + b"K\x01\x98.", "data outside the file"),
    ("deep_marks", b"\x80\x04" + b"(" * 1_000_000, "nested deeper than 64"),
    ("deep_lists", HEAD + b"](" + EVENT + b"]" * 100_000 + b"a" * 99_999 + b"eau.", None),
    ("deep_tuples", HEAD + b"](" + EVENT + b")" + b"\x85" * 100_000 + b"eau.", None),
    ("absent_memo", ONE + b"h\xff.", None),
    ("absent_memo_4", ONE + b"j" + u32(1 << 31) + b".", None),
    ("far_put", ONE + b"K\x01r" + u32((1 << 32) - 1) + b"ea" + b"u.", None),
    ("put_below_zero", ONE + b"p-5\n.", None),
    (
        "doubling_lists",
        ONE + b"".join(b"]\x94(h%ch%ce" % (4 + at, 4 + at) for at in range(90)),
        None,
    ),
    ("doubling_keys", ONE + b")\x94" + b"2\x86\x94" * 40 + b"}h\x10K\x01s.", None),
    ("tuple_key", ONE + b"})K\x01s.", None),
    ("list_key", ONE + b"}]K\x01s.", None),
    ("odd_items", ONE + b"}(K\x01u.", None),
    ("text8_length", ONE + b"\x8d" + u64(1 << 63), None),
    ("text4_length", ONE + b"X" + u32(4_000_000_000), None),
    ("bytes8_length", ONE + b"\x8e" + u64(10**9), None),
    ("bytearray8_length", ONE + b"\x96" + u64(1 << 63), None),
    ("long4_length", ONE + b"\x8b" + u32(10**9), None),
    ("long4_negative", ONE + b"\x8b\xff\xff\xff\xff", None),
    ("frame_length", b"\x80\x04\x95" + u64(1 << 63) + ONE[2:] + b"ea" + b"u.", ""),
    ("frames_of_nothing", b"\x80\x04" + (b"\x95" + u64(0)) * 200_000 + ONE[2:] + b"eau.", ""),
    ("large_long", ONE + b"\x8b" + u32(1 << 20) + b"\x7f" * (1 << 20) + b"eau.", None),
    ("long_digits", ONE + b"L" + b"9" * 1_000_000 + b"L\neau.", None),
    ("int_digits", ONE + b"Ievil\neau.", None),
    ("float_digits", ONE + b"F" + b"1" * 1_000_000 + b"\neau.", None),
    ("float_words", ONE + b"F__import__('os')\neau.", None),
    ("float_nan", ONE + b"Fnan\neau.", None),
    ("old_text", ONE + b"S'\\x41'\neau.", None),
    ("old_text_open", ONE + b"S'abc\neau.", None),
    ("line_without_end", ONE + b"V" + b"a" * 100_000, None),
    ("unicode_escape", ONE + b"V\\ud800\\uZZZZ\neau.", None),
    ("invalid_utf8", ONE + b"\x8c\x02\xff\xfeea" + b"u.", None),
    ("surrogate_name", ONE + b"\x8c\x03\xed\xa0\x80ea" + b"u.", None),
    ("protocol_255", b"\x80\xff" + ONE[2:] + b"eau.", "states protocol 255"),
    ("no_stop", ONE + b"eau", None),
    ("no_mark", b"\x80\x04}e.", "lacks what an opcode needs"),
    ("stop_alone", b"\x80\x04.", "more or less than one item"),
    ("unknown_opcode", ONE + b"\xfe", None),
    ("append_to_number", ONE + b"K\x01K\x02a.", None),
    ("recursive_list", ONE + b"]\x94h\x03aea" + b"u.", None),
    ("recursive_event", ONE + b"}\x94\x8c\x06framesh\x03sea" + b"u.", ""),
    ("recursive_frames", ONE + b"}\x8c\x06frames]\x94h\x03a" + b"sea" + b"u.", None),
    ("event_as_frame", ONE + b"}\x94\x8c\x06frames](h\x03h\x03esea" + b"u.", ""),
    ("grows_after_use", ONE + b"}\x8c\x06frames]\x94s}h\x03a0eau.", None),
    ("negative_address", HEAD + b"](}\x8c\x04addrJ\xff\xff\xff\xffsea" + b"u.", None),
    ("event_again", ONE + b"}\x94\x8c\x04addrK\x01s}\x94h\x03eau.", None),
    ("zero_segments", b"\x80\x04}(\x8c\x08segments](" + SEGMENT + b"2" * 20_000 + b"eu.", ""),
    ("settings_of_lists", ONE + b"ea\x8c\x12allocator_settings}(K\x01]\x8c\x01a]uu.", ""),
    ("doubled", (ONE + b"eau.") * 2, None),
]


def read(raw: bytes, folder: Path, **limits: int) -> Snapshot | str:
    """The snapshot, or the one line that refuses it."""
    path = folder / "snapshot.pickle"
    path.write_bytes(raw)
    try:
        return read_snapshot(str(path), Limits(**limits))
    except TraceError as problem:
        line = str(problem)
    assert "\n" not in line
    assert line.startswith(str(path))
    return line


@pytest.fixture
def sentinel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to code ends the test."""
    for name in ("eval", "exec", "__import__"):
        original = getattr(builtins, name)
        monkeypatch.setattr(
            builtins,
            name,
            lambda *given, do=original, **more: (
                fired() if given[0] == "evil" else do(*given, **more)
            ),
        )
    monkeypatch.setitem(copyreg._inverted_registry, 1, (__name__, "fired"))  # type: ignore[attr-defined]


@pytest.mark.usefixtures("sentinel")
@pytest.mark.parametrize(("name", "raw", "says"), CASES, ids=[case[0] for case in CASES])
def test_hostile_pickles_run_nothing(
    name: str, raw: bytes, says: str | None, tmp_path: Path
) -> None:
    got = read(raw, tmp_path, memory=MOST)
    if isinstance(got, str):
        assert says
        assert says in got
    elif says == "":
        assert not got.lost
    else:
        assert says is None
        assert got.lost
        assert got.histories or name == "negative_address"


def test_a_file_that_repeats_a_list_stops_at_the_ceiling(tmp_path: Path) -> None:
    """100,000 segments that share a list of 10,000 blocks would be a billion blocks."""
    block = b"}\x8c\x04sizeK\x01s"
    blocks = b"](" + block + b"2" * 9_999 + b"e\x94"
    segment = SEGMENT[:-1] + b"\x8c\x06blocks" + blocks + b"u"
    raw = b"\x80\x04}(\x8c\x08segments](" + segment + b"2" * 99_999 + b"eu."
    got = read(raw, tmp_path, memory=16 << 20)
    assert isinstance(got, str)
    assert "E_TOO_MUCH_MEMORY" in got


def test_many_empty_lists_stop_at_the_ceiling(tmp_path: Path) -> None:
    got = read(HEAD + b"]" * 3_000_000, tmp_path, memory=16 << 20)
    assert isinstance(got, str)
    assert "E_TOO_MUCH_MEMORY" in got


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """The file with bytes flipped, cut out, doubled, or overwritten."""
    made = bytearray(raw)
    for _ in range(chance.choice((1, 1, 3))):
        at, size = chance.randrange(len(made)), chance.choice((1, 2, 5, 40, 3000))
        kind = chance.choice((0, 0, 0, 1, 2, 3, 4))
        if kind == 0:
            made[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del made[at:]
        elif kind == 2:
            del made[at : at + size]
        elif kind == 3:
            made[at:at] = made[at : at + size]
        else:
            made[at : at + size] = chance.randbytes(min(size, 40))
        made = made or bytearray(b".")
    return bytes(made)


class PlainUnpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """Python's own reader in Python, which knows no names and takes no memory for a far number."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(name)

    persistent_load = get_extension = find_class


def unpickled(raw: bytes) -> Snapshot | None:
    """What Python's own reader gives."""
    try:
        return from_tree("tree", PlainUnpickler(io.BytesIO(raw)).load())
    except Exception:  # noqa: BLE001 - whatever a damaged file makes it raise
        return None


def test_mutated_snapshots_lose_nothing_without_a_word(tmp_path: Path) -> None:
    """What differs from Python's own reader is refused, or in `lost`."""
    chance, refused, damaged, same = random.Random(36), 0, 0, 0
    sources = [pickled(tiny_tree(), protocol) for protocol in (2, 4)]
    for number in range(300):
        raw = mutated(sources[number % 2], chance)
        got, want = read(raw, tmp_path), unpickled(raw)
        if isinstance(got, str):
            refused += 1
            continue
        assert all(each.stack.max() < len(got.stacks) for each in got.histories)
        damaged += bool(got.lost)
        if not got.lost and (want is not None or number % 2 == 0):  # a frame may state any length
            assert want is not None
            assert resolved(got) == resolved(want)
            same += 1
    assert (refused > 20, damaged > 100, same > 10) == (True, True, True)
