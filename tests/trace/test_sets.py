"""What several traces of one run show together (odd traces C05, E30, E31, and a rank that is
missing).
"""

from __future__ import annotations

from pathlib import Path

import foretrace
from corpus.build import BASE_NS, g0

QUARTER_NS = 7_889_238 * 10**9


def written(folder: Path, name: str, rank: int, base: int = BASE_NS, world: int = 2) -> None:
    info = {"backend": "nccl", "rank": rank, "world_size": world}
    (folder / name).write_bytes(g0().head(distributedInfo=info, baseTimeNanoseconds=base).bytes())


def codes(folder: Path) -> list[dict[str, int]]:
    traces = foretrace.open_all(folder, cache=False)
    return [
        {note.code: note.count for note in trace.ledger.notes if note.severity != "info"}
        for trace in traces
    ]


def test_a_whole_set_is_quiet(tmp_path: Path) -> None:
    for rank in range(2):
        written(tmp_path, f"rank{rank}.json", rank)
    assert codes(tmp_path) == [{}, {}]


def test_bases_of_two_quarters(tmp_path: Path) -> None:
    written(tmp_path, "a.json", 0)
    written(tmp_path, "b.json", 1, BASE_NS + QUARTER_NS)
    assert codes(tmp_path) == [{"base_mismatch": 1}] * 2


def test_one_rank_twice_and_one_missing(tmp_path: Path) -> None:
    written(tmp_path, "a.json", 0)
    written(tmp_path, "b.json", 0)
    assert codes(tmp_path) == [{"rank_duplicate": 1, "rank_missing": 1}] * 2


def test_a_rank_outside_of_the_world_is_none_of_it(tmp_path: Path) -> None:
    for rank in (0, 5):
        written(tmp_path, f"rank{rank}.json", rank, world=3)
    notes = [
        note
        for note in foretrace.open_all(tmp_path, cache=False)[0].ledger.notes
        if note.code == "rank_missing"
    ]
    assert [(note.count, note.text) for note in notes] == [
        (2, "1 of 3 ranks found; not in that world size: rank 5")
    ]


def test_a_coordinator_is_no_rank(tmp_path: Path) -> None:
    for rank in range(2):
        written(tmp_path, f"rank{rank}.json", rank)
    written(tmp_path, "host_7.async_llm.123.json", 0)
    assert codes(tmp_path) == [{}, {}, {}]
