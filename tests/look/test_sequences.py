"""What a region runs: launch order, medians over calls, folding, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.builder import TraceBuilder
from foretrace.look.document import serving_rows
from foretrace.look.documents import LaunchSequence
from foretrace.look.groups import sequences
from opened_traces import H200, open_made, overview
from statements.places import OWN


def of(builder: TraceBuilder, folder: Path) -> list[LaunchSequence]:
    return sequences(open_made(builder, folder))


def calls(durations: list[int], names: str = "a") -> TraceBuilder:
    """A region called once per duration; each call launches one kernel per letter."""
    builder = TraceBuilder()
    for number, length in enumerate(durations):
        at = number * 1_000_000
        builder.region("part", at, 500_000).op("aten::add", at + 100, 400_000)
        for place, name in enumerate(names):
            builder.launch(at + 1_000 + place * 2_000, 500)
            builder.kernel(name, at + 5_000 + place * 20_000, length)
    return builder


def test_times_are_medians_over_the_calls(tmp_path: Path) -> None:
    found = of(calls([1_000, 9_000, 2_000]), tmp_path)[0]
    assert found.rows[0].ns == 2_000
    assert found.rows[0].delay_ns == 4_000
    assert found.rows[0].host_ns == 400_000  # the op less its launch, and the launch


def test_the_commonest_sequence_is_shown(tmp_path: Path) -> None:
    builder = (
        calls([1_000, 1_000], "ab").region("part", 9_000_000, 1_000).op("aten::add", 9_000_000, 900)
    )
    found = of(builder.launch(9_000_100, 50).kernel("c", 9_000_500, 10), tmp_path)[0]
    assert (found.calls, found.same, [row.name for row in found.rows]) == (3, 2, ["a", "b"])


def test_the_floor_reads_the_cache_not_its_copies() -> None:
    """A decode that repeats 4 key heads for 12 query heads: the cache has only the 4."""
    found = overview(OWN / "graph_eager.json.gz")
    weights = 2 * (8 * (2 * 768 * 768 + 2 * 768 * 256 + 3 * 768 * 3072) + 768 * 32000)
    floors = {row.requests: row.floor_ns or 0 for row in found.look.serving}
    assert sorted(floors) == [1, 8, 32]
    for requests, floor in floors.items():
        # the inputs and outputs of matmuls are the rest
        cache = 8 * 2 * requests * 4 * 512 * 64 * 2
        assert floor == pytest.approx((weights + cache) / 4.8e12 * 1e9, rel=0.04)
    decode = [line.text for line in found.lines if line.label == "DECODE"]
    assert len(decode) == 3
    assert any(text.startswith("1 request: 1 token in ") for text in decode)
    assert not any(".09x its floor" in text for text in decode)
    assert not any("this floor" in line.text for line in found.lines)  # one floor on the screen


def test_a_floor_without_attention_does_not_speak_for_the_cache(tmp_path: Path) -> None:
    sizes = {"dims": [[32, 4096], [4096, 4096]], "types": ["c10::BFloat16"] * 2}
    builder = TraceBuilder(header=H200).region("decode bs=32", 0, 400_000)
    builder.op("aten::mm", 1_000, 5_000, **sizes).launch(2_000, 500)
    builder.kernel("nvjet_sm90_tst_64x32_64x16_1x4_h_bz_TNT", 9_000, 20_000)
    (row,) = serving_rows(open_made(builder, tmp_path))
    assert row.floor_by == "weights"
