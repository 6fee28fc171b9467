"""Collectives are matched by group and number, and by order only where nothing else is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from foretrace import jobs
from foretrace.jobs.matched_collectives import MatchedCollectives, match, roles
from foretrace.jobs.whole_job import JobGroup
from jobs.fake import FakeJob, collectives, facts


def _matched(rows: list[dict[str, Any]], groups: dict[int, list[JobGroup]]) -> MatchedCollectives:
    job = FakeJob((facts(rank, own) for rank, own in groups.items()), collectives=collectives(rows))
    return match(job)  # type: ignore[arg-type]


def _who(found: MatchedCollectives) -> list[list[tuple[int, int]]]:
    """(rank, id) of each collective that several ranks recorded."""
    met = found.arrivals.join(found.shared, on="collective_id").sort("collective_id", "rank")
    return [
        list(zip(each["rank"], each["id"], strict=True))
        for each in met.partition_by("collective_id", maintain_order=True)
    ]


def _world(*ranks: int) -> dict[int, list[JobGroup]]:
    return {rank: [JobGroup("0", "default_pg", len(ranks), ranks)] for rank in ranks}


def test_numbers_decide_though_recordings_begin_at_different_collectives() -> None:
    rows = [
        {"rank": rank, "seq": seq} for rank, first in ((0, 7), (1, 8)) for seq in range(first, 10)
    ]
    found = _matched(rows, _world(0, 1))
    assert _who(found) == [[(0, 1), (1, 0)], [(0, 2), (1, 1)]]
    assert found.collectives["how"].unique().to_list() == ["seq"]
    assert found.incomplete().rows() == [("0", "all-reduce", 1, [1])]


def test_another_collective_under_the_same_number_is_no_collective() -> None:
    rows = [{"rank": 0, "seq": 3}, {"rank": 1, "seq": 3, "collective": "all-gather"}]
    found = _matched(rows, _world(0, 1))
    assert _who(found) == []
    assert found.incomplete().rows() == [("0", "all-gather", 1, [0]), ("0", "all-reduce", 1, [1])]


def test_without_numbers_the_order_in_a_step_decides() -> None:
    rows = [{"rank": rank, "step": step} for rank in (0, 1) for step in (rank + 1, 3) for _ in "ab"]
    found = _matched(rows, _world(0, 1))
    assert _who(found) == [[(0, 2), (1, 2)], [(0, 3), (1, 3)]]
    assert found.collectives["how"].unique().to_list() == ["order"]


def test_without_numbers_a_rank_that_counts_differently_is_left_apart() -> None:
    rows = [{"rank": rank} for rank in (0, 1, 2) for _ in range(3 if rank == 1 else 2)]
    found = _matched(rows, _world(0, 1, 2))
    assert _who(found) == [[(0, 0), (2, 0)], [(0, 1), (2, 1)]]
    assert found.incomplete().rows() == [("0", "all-reduce", 2, [1])]
    assert found.unmatched().rows() == [("0", "all-reduce", "order", 3, [1])]


def test_a_send_that_names_no_peer_is_not_matched() -> None:
    rows = [{"rank": rank, "collective": "send-receive"} for rank in (0, 1)]
    found = _matched(rows, _world(0, 1))
    assert _who(found) == []
    assert found.unmatched().rows() == [("0", "send", "peer", 2, [0, 1])]
    assert found.incomplete().is_empty()


def test_groups_of_one_name_are_told_apart_by_their_members() -> None:
    groups = {
        rank: [JobGroup("1", "mesh_tp", 2, (rank - rank % 2, rank - rank % 2 + 1))]
        for rank in range(4)
    }
    found = _matched([{"rank": rank, "group": "1", "seq": 1} for rank in range(4)], groups)
    assert _who(found) == [[(0, 0), (1, 0)], [(2, 0), (3, 0)]]
    assert found.collectives["group"].to_list() == ["1 of rank 0", "1 of rank 2"]


def test_groups_of_one_name_are_told_apart_by_the_id_of_the_collective() -> None:
    groups = {rank: [JobGroup("1", "mesh_tp", 2)] for rank in range(4)}
    rows = [{"rank": r, "group": "1", "seq": 1, "comms_id": str(r // 2)} for r in range(4)]
    found = _matched(rows, groups)
    assert sorted(_who(found)) == [[(0, 0), (1, 0)], [(2, 0), (3, 0)]]


def test_groups_of_one_name_that_nothing_tells_apart_are_not_matched() -> None:
    groups = {rank: [JobGroup("1", "mesh_tp", 2)] for rank in range(4)}
    rows = [{"rank": r, "group": "1", "group_size": 2, "seq": s} for r in range(4) for s in (1, 2)]
    found = _matched(rows, groups)
    assert _who(found) == []
    assert found.unmatched().rows() == [("1", "all-reduce", "group", 8, [0, 1, 2, 3])]


def test_sends_and_receives_pair_by_peer_whatever_their_numbers() -> None:
    def talk(rank: int, kind: str, peer: int, seq: int) -> dict[str, Any]:
        return {"rank": rank, "collective": kind, "peer": peer, "seq": seq}

    rows = [
        talk(0, "send", 1, 1), talk(0, "send", 1, 2), talk(0, "receive", 1, 3),
        talk(1, "receive", 0, 1), talk(1, "send", 2, 2), talk(1, "receive", 0, 3),
        talk(1, "send", 0, 4), talk(2, "receive", 1, 1), talk(2, "send", 3, 2),
    ]  # fmt: skip
    found = _matched(rows, _world(0, 1, 2, 3))
    assert sorted(_who(found)) == [
        [(0, 0), (1, 0)], [(0, 1), (1, 2)], [(0, 2), (1, 3)], [(1, 1), (2, 0)],
    ]  # fmt: skip
    assert found.incomplete()["count"].to_list() == [1]
    assert set(found.collectives["collective"]) == {"send"}


def test_the_numbers_of_collectives_do_not_depend_on_the_order_of_rows() -> None:
    rows = [{"rank": r, "seq": s, "id": s, "order": s} for r in range(4) for s in range(50)]
    one, other = (_matched(each, _world(0, 1, 2, 3)) for each in (rows, rows[::-1]))
    assert one.collectives.equals(other.collectives)
    assert one.arrivals.equals(other.arrivals)
    assert one.arrivals.schema["collective_id"] == pl.UInt32


def _without_metadata(rank: int) -> dict[str, Any]:
    """An all-to-all as torch 2.0 recorded it: the kernel is that of sends and receives."""
    host = {"ph": "X", "pid": 7, "tid": 7}
    ops = ("c10d::alltoall_base_", "record_param_comms")
    kernel = {"ph": "X", "pid": 0, "tid": 20, "cat": "kernel", "name": "ncclKernel_SendRecv(int)"}
    events = [
        *({**host, "cat": "cpu_op", "name": name, "ts": 10 + at, "dur": 40 - 2 * at, "args": {}}
          for at, name in enumerate(ops)),
        {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 20, "dur": 5,
         "args": {"correlation": 3}},
        {**kernel, "ts": 60, "dur": 90, "args": {"correlation": 3, "device": 0, "stream": 20}},
    ]  # fmt: skip
    about = {"backend": "nccl", "rank": rank, "world_size": 2}
    return {"schemaVersion": 1, "distributedInfo": about, "traceEvents": events}


def test_without_metadata_the_op_names_the_collective(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(_without_metadata(rank)))
    with jobs.read(tmp_path, cache=False) as job:
        found = match(job)
    assert found.shared.select("collective", "how", "present").rows() == [
        ("all-to-all", "order", 2)
    ]


def test_ten_thousand_groups_of_the_same_members() -> None:
    """Each is a group of its own on rank 0, and rank 1 joins them one by one under other names."""
    own = [
        facts(rank, [JobGroup(f"{rank}.{at:05}", "", 2, (0, 1)) for at in range(10_000)])
        for rank in range(2)
    ]
    found = roles(FakeJob(own))
    assert found.height == 20_000
    assert found["label"].n_unique() == 10_000
