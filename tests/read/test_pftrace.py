"""Perfetto's protobuf traces: equal to the JSON of the same run, render stages, damage."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec import to_builtins

import foretrace
from foretrace import TraceError
from foretrace.base.budget import Limits
from foretrace.read import read, recordings
from foretrace.read.door import TraceFolder, open_any
from foretrace.read.tables import KIND
from read.test_nsys import made

GPU = {"kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation"}


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def num(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def msg(field: int, *parts: bytes | str) -> bytes:
    body = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def value(given: Any) -> bytes:
    if isinstance(given, dict):
        return b"".join(msg(11, msg(10, key), value(inner)) for key, inner in given.items())
    if isinstance(given, list):
        return b"".join(msg(12, value(inner)) for inner in given)
    if isinstance(given, bool):
        return num(2, given)
    if isinstance(given, float):
        return varint(5 << 3 | 1) + struct.pack("<d", given)
    return num(4, given) if isinstance(given, int) else msg(6, str(given))


def number(text: Any) -> int:
    return int(text) if str(text).lstrip("-").isdigit() else 7


def as_pftrace(events: list[dict[str, Any]], base: int) -> bytes:
    """As torch writes it: tracks, names, all starts, then all ends; no categories."""
    tracks: dict[Any, int] = {}
    packets = []
    for event in events:
        on_gpu = event["cat"] in GPU
        for key in ((event["pid"],), (event["pid"], event["tid"])):
            if key in tracks:
                continue
            tracks[key] = len(tracks) + 1
            of = num(1, number(key[0]))
            if len(key) == 1:
                about = msg(3, of, msg(6, f"GPU {key[0]}" if on_gpu else "python"))
            else:
                about = num(5, tracks[key[:1]]) + msg(4, of, num(2, number(key[1])), msg(5, "t"))
            packets.append(msg(60, num(1, tracks[key]), about))
    names = {name: place for place, name in enumerate({e["name"]: 0 for e in events}, 1)}
    told = [msg(2, num(1, place), msg(2, name)) for name, place in names.items()]
    packets.append(num(10, 1) + msg(12, *told))
    for kind in (1, 2):
        for event in events:
            at = base + int(Decimal(str(event["ts"])) * 1000)
            at += int(Decimal(str(event["dur"])) * 1000) if kind == 2 else 0
            inside = num(9, kind) + num(11, tracks[event["pid"], event["tid"]])
            if kind == 1:
                args = event.get("args", {}).items()
                told = [msg(4, msg(10, key), value(given)) for key, given in args]
                inside += num(10, names[event["name"]]) + b"".join(told)
            packets.append(num(8, at) + num(10, 1) + msg(11, inside))
    return b"".join(msg(1, packet) for packet in packets)


def answer(path: Path) -> Any:
    """The document of `look`, without what names the file or counts its records."""
    document = to_builtins(foretrace.look(foretrace.open(path, cache=False)))
    for key in ("ledger", "trace"):
        del document[key]
    for each in document["findings"] + document["fixes"]:
        each["events"] = len(each["events"])
    return document


@pytest.mark.parametrize("name", ["mlp_compiled", "mlp_eager_train"])
def test_a_run_as_json_and_as_protobuf_has_one_answer(name: str, tmp_path: Path) -> None:
    whole = json.loads(
        gzip.decompress((recordings.traces() | recordings.ladder())[name].read_bytes())
    )
    base = whole["baseTimeNanoseconds"]
    events = [e for e in whole["traceEvents"] if e.get("ph") == "X" and e["cat"] != "Trace"]
    plain = {"schemaVersion": 1, "baseTimeNanoseconds": base, "traceEvents": events}
    (tmp_path / "t.json").write_text(json.dumps(plain))
    (tmp_path / "t.pftrace").write_bytes(as_pftrace(events, base))
    assert answer(tmp_path / "t.pftrace") == answer(tmp_path / "t.json")


def test_a_render_stage_is_a_kernel(tmp_path: Path) -> None:
    texts = [msg(24, num(1, 1), msg(2, "Kernel")), msg(2, num(1, 5), msg(2, "gemm"))]
    texts.append(msg(1001, num(1, 1), msg(2, "registers_per_thread")))
    pairs = {"device id": 0, "stream id": 7, "correlation": 9}
    extra = [msg(6, msg(1, key), msg(2, str(given))) for key, given in pairs.items()]
    sides = msg(1, num(1, 4), num(2, 2), num(3, 1)) + msg(2, num(1, 128), num(2, 1), num(3, 1))
    launch = msg(21, sides, msg(3, num(1, 1), num(4, 64)))
    stage = msg(53, num(1, 9), num(2, 1234), num(11, 0), num(14, 1), num(20, 5), launch, *extra)
    when = num(8, 10**18) + num(10, 1)
    (tmp_path / "t.pftrace").write_bytes(msg(1, num(10, 1), msg(12, *texts)) + msg(1, when, stage))
    found = read(str(tmp_path / "t.pftrace"))
    (kernel,) = found["events"].filter(pl.col("kind_id") == KIND["kernel"]).to_dicts()
    assert (kernel["dur_ns"], kernel["correlation"]) == (1234, 9)
    (gpu,) = found["gpu"].to_dicts()
    assert (gpu["stream"], list(gpu["grid"]), gpu["registers"]) == (7, [4, 2, 1], 64)


def test_damage_is_said(tmp_path: Path) -> None:
    deep = value(1)
    for _ in range(40):
        deep = msg(12, deep)
    told = num(9, 1) + num(11, 3) + msg(23, "a::b") + msg(4, msg(10, "k"), deep)
    ended = msg(1, num(8, 2000), msg(11, num(9, 2), num(11, 3)))
    whole = msg(1, num(8, 1000), msg(11, told)) + ended
    (tmp_path / "cut.pftrace").write_bytes(whole + whole[:-3])
    ledger = read(str(tmp_path / "cut.pftrace")).ledger
    assert ledger.count("trace_truncated") == 1
    (tmp_path / "none.pftrace").write_bytes(msg(1, num(8, 5), num(10, 1)) * 9)
    with pytest.raises(TraceError, match="without events of"):
        read(str(tmp_path / "none.pftrace"))


def test_a_folder_lists_it_beside_an_export_of_nsight_systems(tmp_path: Path) -> None:
    launch = {"name": "mm", "cat": "kernel", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    (tmp_path / "run.pftrace").write_bytes(as_pftrace([launch], 10**18))
    made(tmp_path / "run.sqlite").close()
    sqlite3.connect(tmp_path / "notes.sqlite").executescript("create table notes (id INTEGER);")
    found = open_any(str(tmp_path), Limits())
    assert isinstance(found, TraceFolder)
    assert [Path(path).name for path in found.traces] == ["run.pftrace", "run.sqlite"]
    refused = {Path(path).name: str(problem) for path, problem in found.files if problem}
    assert "without CUDA activity" in refused["notes.sqlite"]
