"""Records, strings and messages as torch and those around it write them."""

from __future__ import annotations

import json
import random
import tracemalloc

import pytest

from foretrace.read.compiler.reader import compile_id
from read.compiler.written import answer, artifact, head, message, record

FRAME = {"line": 3, "name": "f", "filename": 7}
START = {"dynamo_start": {"stack": [FRAME]}, "frame_id": 0, "frame_compile_id": 1}


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ({"frame_id": 0, "frame_compile_id": 1}, "0/1"),
        ({"compiled_autograd_id": 1, "frame_id": 0, "frame_compile_id": 0}, "!1/0/0"),
        ({"compiled_autograd_id": 2}, "!2"),
        ({"frame_id": 0}, ""),
        ({"frame_id": "0", "frame_compile_id": 1}, ""),
        ({}, ""),
    ],
)
def test_compile_ids_are_as_torch_prints_them(metadata: dict[str, object], wanted: str) -> None:
    assert compile_id(metadata) == wanted


def names(data: bytes) -> list[str]:
    return [
        frame["filename"]
        for each in answer(data).records
        if each.kind == "dynamo_start"
        for frame in each.fields["stack"]
    ]


def test_each_process_numbers_its_own_strings() -> None:
    data = record({"str": ["a.py", 7]}, pid=1) + record({"str": ["b.py", 7]}, pid=2)
    assert names(data + record(START, pid=2) + record(START, pid=1)) == ["b.py", "a.py"]


def test_ranks_whose_logs_were_joined_to_one_file() -> None:
    data = record({"str": ["a.py", 7]}) + record({**START, "rank": 0})
    data += record({"str": ["b.py", 7]}) + record({**START, "rank": 1})
    assert names(data) == ["a.py", "b.py"]
    assert [each.rank for each in answer(data).records] == [0, 1]


def test_a_string_that_the_log_does_not_hold_is_unknown() -> None:
    found = answer(record(START))
    assert found.records[0].fields["stack"][0]["filename"] == ""
    assert found.notes == {"log_string_missing": 1}
    data = record({"str": ["a.py", 7]}, pid=1) + record({"str": ["b.py", 7]}, pid=2)
    assert names(data + record(START, pid=3)) == [""]  # either may be its parent


def test_unknown_kinds_are_kept_and_counted() -> None:
    data = record({"link": {}}) + record({"brand_new": [1]}, "text") + record({"stack": []})
    found = answer(data)
    assert [(each.kind, each.fields) for each in found.records[1:]] == [
        ("brand_new", {"value": [1]}),
        ("", {"value": None, "stack": []}),
    ]
    assert found.notes == {"log_kind_unknown": 2}
    assert "brand_new" in found.ledger.notes[0].text


HEADS = {
    "torch 2.3, a thread": ("V0226 14:13:14.463000 140097411732480 torch/_dynamo/a.py:9] ", 0),
    "a long path": ("V0521 11:50:39.474000 305 /data/users/me/my code/torch/utils.py:1864] ", 305),
    "a prefix": ("[trainer0]:V1115 07:58:48.410000 412 torch/a.py:9] ", 412),
    "no blank": ("V1115 07:58:48.410000 412torch/a.py:9] ", 412),
}


@pytest.mark.parametrize("which", HEADS)
def test_heads_of_other_versions(which: str) -> None:
    written, pid = HEADS[which]
    data = record(START).replace(head().encode(), written.encode())
    (found,) = answer(data).records
    assert (found.kind, found.pid) == ("dynamo_start", pid)


# ---- messages


def test_messages_have_channel_id_attempt_and_rank() -> None:
    data = message("a\n\n  b") + message("c", "[!1/2/3_4] [__recompiles] ", "[rank3]:")
    data += message("d", "[1/0] ") + message("e", "")
    found = [(t.channel, t.compile_id, t.attempt, t.rank, t.text) for t in answer(data).texts]
    assert found == [
        ("fusion", "0/0", 0, None, "a\n\n  b"),
        ("recompiles", "!1/2/3", 4, 3, "c"),
        ("", "1/0", 0, None, "d"),
        ("", "", 0, None, "e"),
    ]


# ---- what it costs


def events(count: int) -> bytes:
    event = {"name": "entire_frame_compile", "args": {"compile_id": "0/0"}, "ph": "B", "ts": 1.5}
    common = {"chromium_event": {}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    return record(common, json.dumps(event, indent=0)) * count


@pytest.mark.parametrize("data", [events(5_000), artifact("code", "x = 1\n" * 20_000) * 20])
def test_memory_stays_below_twice_the_size(data: bytes) -> None:
    answer(data[:1000])
    tracemalloc.start()
    try:
        found = answer(data)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.records
    assert most < 2 * len(data) + (1 << 20)


def test_records_messages_and_output_in_any_order() -> None:
    for number in range(40):
        chooser = random.Random(number)
        made, texts, others, data = [], [], 0, b""
        for at in range(chooser.randint(2, 20)):
            match chooser.randint(0, 2):
                case 0:
                    made.append((f"a{at}", chooser.choice(["", "\n", "{", "\t\n x", "é\n\ny"])))
                    data += artifact(*made[-1])
                case 1:
                    texts.append((f"c{at}", chooser.choice(["", "x", "x\n", "\n\ty\n"])))
                    data += message(texts[-1][1], f"[0/{at}] [__{texts[-1][0]}] ")
                case _:
                    others += 1
                    data += chooser.choice(
                        [b"loss 0.5\n", b"10%|#\n", b"[rank0]: hello\n", b"\xff\n"]
                    )
        found = answer(data, size=chooser.choice([1, 3, 50, 5_000]))
        assert [(each.name, each.payload.decode()) for each in found.records] == made
        assert [(each.channel, each.text) for each in found.texts] == texts
        assert found.notes == ({"log_lines_other": others} if others else {})
