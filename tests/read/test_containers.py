"""Containers are read as streams, in work and memory that grow with the file."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus.build import gz
from corpus.cases import G0
from corpus.odd_containers import ZIP, ZSTD, changed, gn_text, packed_by, sizes_after, zip64, zipped
from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError, TraceError
from foretrace.read import bytestream
from foretrace.read.bytestream import Feed, gunzip, open_stream, unzip, unzstd
from foretrace.read.door import TraceFolder, open_any
from foretrace.read.ledger import LedgerBuilder
from sweep import examples

WHOLE = 1 << 30


def in_blocks(data: bytes, size: int = 4096) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def unpacked(
    data: bytes, size: int = WHOLE, opener: object = gunzip
) -> tuple[bytes, LedgerBuilder]:
    ledger = LedgerBuilder()
    blocks = opener(in_blocks(data, size), "t", Limits(), ledger)  # type: ignore[operator]
    return b"".join(blocks), ledger


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of every piece that a decoder was given."""
    sizes: list[int] = []
    bite = Feed.bite

    def counting(self: Feed, size: int) -> memoryview:
        found = bite(self, size)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(Feed, "bite", counting)
    return sizes


@pytest.mark.parametrize(
    ("piece", "opener"), [(gz(b""), gunzip), (b"\x28\xb5\x2f\xfd\x20\0\1\0\0", unzstd)]
)
def test_work_of_empty_members(piece: bytes, opener: object, offered: list[int]) -> None:
    """Ten MB of empty gzip members took 16 s: a decoder copied the rest of the block each time."""
    if opener is unzstd:
        pytest.importorskip(ZSTD)
    work = []
    for count in (2000, 4000):
        offered.clear()
        out, ledger = unpacked(piece * count, opener=opener)
        assert (out, ledger.counts) == (b"", {})
        work.append(sum(offered))
    assert work[1] <= 2.1 * work[0]


def test_damage_of_a_bomb_stays_small() -> None:
    """What comes before damage is bounded, too: 256 kB of input hold 256 MB of blanks."""
    data = bytearray(gz(b" " * (90 << 20), level=9))
    data[-100] ^= 0xFF
    blocks = gunzip(in_blocks(bytes(data)), "t", Limits(), LedgerBuilder())
    with pytest.raises(LimitError, match="E_BOMB"):
        max(map(len, blocks))


def test_members_after_damage() -> None:
    """The first and the third of three members are whole; of the second comes what it can give."""
    parts = [gz(word * 9000) for word in (b"first", b"second", b"third")]
    parts[1] = parts[1][:20] + b"\xff" * 20 + parts[1][40:]
    for size in (1, 7, 512, WHOLE):
        out, ledger = unpacked(b"".join(parts), size)
        assert out.startswith(b"first" * 9000)
        assert out.endswith(b"third" * 9000)
        assert ledger.counts == {"gzip_crc": 1}
        assert "the next member" in ledger.texts["gzip_crc"]


@pytest.mark.parametrize("second", ["broken", "cut", "wrong sum"])
def test_no_member_is_whole(second: str) -> None:
    """B18: several ranks wrote to one file, and what follows damage is damaged as well."""
    whole = gz(G0)
    broken = whole[:40] + b"\xff" * 40 + whole[80:]
    follows = {"broken": broken, "cut": whole[:-30], "wrong sum": whole[:-8] + bytes(8)}
    with pytest.raises(TraceError, match="several ranks"):
        unpacked(broken + follows[second])


def test_damage_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that breaks at every other member is not read to its end."""
    bad = gz(b"")[:10] + b"\xff" * 30
    monkeypatch.setattr(bytestream, "MOST_DAMAGE", 3)
    with pytest.raises(TraceError, match="E_GZIP"):
        unpacked((gz(b"x") + bad) * 9)


def test_every_block_size() -> None:
    """Where the blocks of the file end makes no difference."""
    data = gz(G0[:99]) + b"garbage" + gz(G0[99:], name=b"name") + bytes(30)
    for size in range(1, 60):
        out, ledger = unpacked(data, size)
        assert out == G0
        assert ledger.counts == {"gzip_trailing": 1}


def test_nested_zip_is_streamed() -> None:
    """The first block of a member comes before the archive was read to its end."""
    taken = 0

    def blocks() -> Iterator[bytes]:
        nonlocal taken
        for block in in_blocks(zipped({"t.json": gn_text()})):
            taken += len(block)
            yield block

    first = next(unzip(blocks(), "t", Limits(), LedgerBuilder()))
    assert gn_text().startswith(first)
    assert taken < len(gn_text()) // 10


@pytest.mark.parametrize("size", [1, 100, WHOLE])
def test_zstd_blocks(size: int) -> None:
    pytest.importorskip(ZSTD)
    data = packed_by(ZSTD)()
    assert unpacked(data * 2, size, unzstd)[0] == G0 * 2
    assert unpacked(data[:-5], size, unzstd)[1].counts == {"gzip_truncated": 1}


SEEDS = {
    "gz": gz(G0) * 2,
    "zip": zipped({"a.json": G0, "b.json": G0}),
    "zip64": zip64(),
    "sizes after": gz(sizes_after()),
    "nested": zipped({"a.zip": ZIP}),
}
EXTREMES = (b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\xff" * 8, b"PK\5\6", b"PK\1\2")


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_fields_anywhere(seed: str, tmp_path: Path) -> None:
    """A container with a few wrong fields gives bytes, or an error with a code."""
    chooser, path = random.Random(seed), tmp_path / "t.bin"
    for _ in range(examples(200)):
        data = SEEDS[seed]
        for _ in range(chooser.choice((1, 2, 5))):
            near = chooser.choice((60, len(data)))
            at = chooser.choice((chooser.randrange(near), len(data) - 1 - chooser.randrange(near)))
            data = changed(data, at, chooser.choice((*EXTREMES, b"%c" % chooser.randrange(256))))
        path.write_bytes(data)
        with contextlib.suppress(TraceError):
            found = open_any(str(path), Limits())
            for each in found.traces if isinstance(found, TraceFolder) else [str(path)]:
                sum(map(len, open_stream(each, Limits(), LedgerBuilder()).blocks))
