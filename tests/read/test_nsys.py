"""Exports of Nsight Systems: the figures of a database made by hand, old columns and hostile ones."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from foretrace import TraceError
from foretrace.read import read
from foretrace.read.tables import KIND, Tables

RANK = [1 << 48 | pid << 24 for pid in (100, 200)]  # two processes of one machine
NEW = """
create table StringIds (id INTEGER, value TEXT);
create table ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
create table TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
create table TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, computeMajor INTEGER,
  computeMinor INTEGER, totalMemory INTEGER);
create table CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
  contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
  blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER,
  dynamicSharedMemory INTEGER, graphNodeId INTEGER);
create table CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
  contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER,
  copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
create table CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER);
create table NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
  globalTid INTEGER, textId INTEGER);
"""
OLD = NEW.replace(", graphNodeId INTEGER", "").replace(" contextId INTEGER,", "")


def made(path: Path, tables: str = NEW) -> sqlite3.Connection:
    """A database of two processes whose correlation ids are equal."""
    base = sqlite3.connect(path)
    base.executescript(tables)
    names = ["cudaLaunchKernel_v7000", "sgemm_128x128", "cudaMemcpyAsync_v3020", "main"]
    base.executemany("insert into StringIds values (?, ?)", enumerate(names))
    base.execute("insert into TARGET_INFO_SESSION_START_TIME values (1700000000000000000)")
    base.execute("insert into TARGET_INFO_GPU values (0, 'NVIDIA H100', 132, 9, 0, 85000000000)")
    for device, process in enumerate(RANK):
        thread, at = process | 7, 155_000_000_001
        _insert(base, "ThreadNames", nameId=3, globalTid=thread)
        text = "aten::mm, seq = 3, op_id = 9, sizes = [[64, 32], [32, 16]], input_op_ids = [(1,0)]"
        _insert(
            base, "NVTX_EVENTS", start=at, end=at + 900, eventType=59, text=text, globalTid=thread
        )
        _insert(
            base, "NVTX_EVENTS", start=at, end=at + 950, eventType=59, text="step", globalTid=thread
        )
        _insert(
            base,
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=at + 100,
            end=at + 300,
            nameId=0,
            globalTid=thread,
            correlationId=1,
        )
        dims = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 2)
        place = {"deviceId": device, "contextId": 1, "streamId": 7, "globalPid": process}
        _insert(
            base,
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start=at + 400,
            end=at + 400 + 123 + device,
            correlationId=1,
            demangledName=1,
            dynamicSharedMemory=1024,
            **place,
            **dims,
        )
        _insert(
            base,
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start=at + 600,
            end=at + 700,
            correlationId=2,
            bytes=4096,
            copyKind=1,
            srcKind=0,
            dstKind=2,
            **place,
        )
    base.commit()
    return base


def _insert(base: sqlite3.Connection, table: str, **values: object) -> None:
    has = {row[1] for row in base.execute(f"pragma table_info({table})")}
    kept = {key: value for key, value in values.items() if key in has}
    marks = ", ".join("?" * len(kept))
    base.execute(f"insert into {table} ({', '.join(kept)}) values ({marks})", list(kept.values()))


def rows(tables: Tables, kind: str) -> pl.DataFrame:
    events = tables["events"].filter(pl.col("kind_id") == KIND[kind])
    return events.with_columns(name=tables["names"]["name"].gather(events["name_id"]))


@pytest.mark.parametrize("tables", [NEW, OLD], ids=["new", "old"])
def test_every_record_keeps_its_nanoseconds(tables: str, tmp_path: Path) -> None:
    made(tmp_path / "t.sqlite", tables)
    (tmp_path / "t.sqlite.gz").write_bytes(gzip.compress((tmp_path / "t.sqlite").read_bytes()))
    found = read(str(tmp_path / "t.sqlite.gz"))
    kernels, copies = rows(found, "kernel"), rows(found, "gpu_memcpy")
    assert sorted(kernels["dur_ns"]) == [123, 124]
    assert set(kernels["name"]) == {"sgemm_128x128"}
    assert set(copies["name"]) == {"Memcpy HtoD (Pageable -> Device)"}
    assert list(copies["dur_ns"]) == [100, 100]
    assert set(rows(found, "cuda_runtime")["name"]) == {"cudaLaunchKernel"}
    assert set(rows(found, "user_annotation")["name"]) == {"step"}
    assert list(rows(found, "cpu_op")["name"]) == ["aten::mm", "aten::mm"]
    assert found["signatures"]["dims"].to_list() == [[[64, 32], [32, 16]]]
    assert found.base_ns == 1_700_000_000_000_000_000
    assert "nsys_export" in {note.code for note in found.ledger.notes}


def test_two_processes_share_no_correlation(tmp_path: Path) -> None:
    made(tmp_path / "t.sqlite")
    found = read(str(tmp_path / "t.sqlite"))
    launches, kernels = rows(found, "cuda_runtime"), rows(found, "kernel")
    assert sorted(launches["correlation"]) == sorted(kernels["correlation"])
    assert kernels["correlation"].n_unique() == 2


def test_a_row_without_numbers_is_counted(tmp_path: Path) -> None:
    base = made(tmp_path / "t.sqlite")
    base.execute("update CUPTI_ACTIVITY_KIND_KERNEL set start = 'soon' where deviceId = 1")
    base.commit()
    found = read(str(tmp_path / "t.sqlite"))
    assert rows(found, "kernel").height == 1
    assert {note.code: note.count for note in found.ledger.notes}["event_unparsable"] == 1


@pytest.mark.parametrize(
    "script",
    [
        "create table t (a INTEGER)",
        "create view CUPTI_ACTIVITY_KIND_KERNEL as with recursive n(i) as (select 1 union all"
        " select i + 1 from n) select i as start, i as end from n",
        "create virtual table CUPTI_ACTIVITY_KIND_KERNEL using fts5(start, end)",
    ],
    ids=["another", "view", "virtual"],
)
def test_other_databases_are_refused(script: str, tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "t.sqlite")
    base.execute(script)
    base.commit()
    with pytest.raises(TraceError, match="without CUDA activity of Nsight Systems"):
        read(str(tmp_path / "t.sqlite"))


def test_a_cut_file_is_refused_in_one_line(tmp_path: Path) -> None:
    made(tmp_path / "t.sqlite")
    whole = (tmp_path / "t.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(whole[: len(whole) // 3])
    with pytest.raises(TraceError, match="cannot be read"):
        read(str(tmp_path / "cut.sqlite"))
