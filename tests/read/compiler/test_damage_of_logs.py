"""Damage costs the record that it hits. Nothing is lost without a note, nothing is raised."""

from __future__ import annotations

import gzip
import random
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from foretrace.base.budget import Limits
from foretrace.read import compiler
from read.compiler.test_recorded_logs import COMPILE, unpacked
from read.compiler.written import Answer, answer, artifact, expected, message, record, sample
from sweep import FULL

TIMES = 10 if FULL else 0.2
CODE = "def call(args):\n    return args"


def parts(found: Answer) -> list[tuple[str, Any, bytes]]:
    return [(each.kind, each.fields, each.payload) for each in found.records]


def test_a_prefix_gives_the_records_that_are_whole() -> None:
    whole = unpacked(COMPILE / "mlp" / "torch_trace.log.gz")[:24_000]
    every = parts(answer(whole))
    for end in range(0, len(whole), 1 if FULL else 499):
        found = answer(whole[:end])
        assert parts(found) == every[: len(found.records)]
        cut = whole[:end].rstrip(b"\n").rpartition(b"\nV1115 ")[0].count(b"\nV1115 ")
        assert found.ledger.seen >= cut  # all but the last are there


@pytest.mark.parametrize("part", range(4))
def test_a_changed_byte_costs_one_record(part: int) -> None:
    chooser = random.Random(part)
    for number in range(part, int(250 * TIMES), 4):
        first = ({"describe_source": {"id": 0}}, None)
        made = [first, *(each for each in sample(number) if "str" not in each[0]), first]
        made = [each for each in made if "dynamo_start" not in each[0]]
        texts = [record(*each) for each in made]
        data = bytearray(b"".join(texts))
        at = chooser.randrange(len(texts[0]), len(data))
        data[at] = chooser.choice([0, 9, 10, 32, 34, 63, 123, 125, 200, (data[at] + 1) % 256])
        hit = sum(end <= at for end in accumulate(map(len, texts)))
        found, every = parts(answer(bytes(data))), list(expected(made))
        rest = every[:hit] + every[hit + 1 :]
        touched = [each for each in found if each in rest] if len(found) > len(rest) else found
        assert touched[: len(rest)] == rest, (number, at, bytes(data))


def test_two_records_without_a_line_feed_between_them() -> None:
    text = artifact("a", CODE)[:-1] + b"x" + artifact("b", CODE) + artifact("c", CODE)
    found = answer(text)
    assert [each.name for each in found.records] == ["b", "c"]
    assert found.records[0].line == 3
    assert (found.notes, found.ledger.skipped) == ({"log_record_unparsable": 1}, 1)


def test_a_changed_payload_is_read_and_a_damaged_one_is_not() -> None:
    text = artifact("a", CODE).replace(b"args", b"arguments") + record({"dynamo_start": {}})
    found = answer(text)
    assert found.payloads[0] == CODE.replace("args", "arguments").encode()
    assert found.notes == {"log_payload_changed": 1}
    event = record({"chromium_event": {}}, '{\n"name": "dynamo",\n"ph": "B"\n}')
    found = answer(event.replace(b'\t"ph": "B"\n', b"") + text)
    assert (found.notes, found.ledger.skipped) == (
        {"log_payload_damaged": 1, "log_payload_changed": 1},
        1,
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (artifact("a", CODE).replace(b"return", b"re\xffurn"), "log_payload_damaged"),
        (artifact("a", CODE).replace(b"return", b"re\0urn"), "log_payload_damaged"),
        (artifact("a", CODE).partition(b"\n")[0] + b"\n", "log_payload_damaged"),
        (artifact("a", CODE).replace(b"{", b"{{", 1), "log_record_unparsable"),
        (artifact("a", CODE).replace(b"V1115", b"V11I5", 1), "log_record_unparsable"),
        (artifact("a", CODE).replace(b"] {", b"] x", 1), "log_record_unparsable"),
        (record({"str": ["a", "b"]}), "log_record_unparsable"),
        (artifact("a", "x" * 5000), "limit_event"),
        (b"V1115 07:58:48.410000 412 a.py:1] " + b'{"a":' * 700 + b"1\n", "log_record_unparsable"),
    ],
)
def test_what_is_lost_has_a_note(text: bytes, code: str) -> None:
    """And the records around it are read."""
    found = answer(artifact("b", CODE) + text + artifact("c", CODE), Limits(event=4000))
    assert [each.name for each in found.records] == ["b", "c"]
    assert (found.notes, found.ledger.skipped) == ({code: 1}, 1)


def test_a_log_that_was_copied_through_windows() -> None:
    made = sample(3) + sample(4)
    text = b"".join(record(*each) for each in made)
    found = answer(text.replace(b"\n", b"\r\n"))
    assert parts(found) == list(expected(made))
    assert found.notes == {}
    (read,) = answer(message("a\nb").replace(b"\n", b"\r\n")).texts
    assert read.text == "a\nb"


def test_a_cut_message_keeps_its_whole_lines() -> None:
    whole = message("first") + message("second\nthird", "[0/1] [__schedule] ")
    found = answer(whole[:-3])
    assert [text.text for text in found.texts] == ["first", "second"]
    assert (found.ledger.repaired, found.notes) == (1, {"log_truncated": 1})
    found = answer(message("first") + message("x", "[0/1] ")[:-1])
    assert (len(found.texts), found.ledger.skipped) == (1, 1)


@pytest.mark.parametrize("at", [20, 5_000, 20_000])
def test_damaged_containers(at: int, tmp_path: Path) -> None:
    packed = (COMPILE / "mlp" / "torch_trace.log.gz").read_bytes()
    whole = unpacked(COMPILE / "mlp" / "torch_trace.log.gz")
    path = tmp_path / "torch_trace.log.gz"
    path.write_bytes(packed[:at])
    if at > 100:
        logs = compiler.read(str(path))
        assert logs.ledger.count("gzip_truncated") == 1
        assert 0 < len(logs.records) < 136
    path.write_bytes(gzip.compress(whole[:5_000]) + gzip.compress(whole[5_000:]))
    assert len(compiler.read(str(path)).records) == 136
