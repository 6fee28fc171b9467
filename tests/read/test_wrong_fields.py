"""Fields that are missing, doubled, of a wrong type or far too large."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foretrace
import reference_reader
from corpus.agreement import assert_agree
from corpus.build import Doc, g0, gn
from corpus.opening import open_at
from corpus.places import DEEP, examples
from foretrace.base.errors import TraceError

ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    7,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
    1.5,
    -0.0,
    1e300,
    "",
    "x",
    "7",
    "1200.000",
    "nan",
    "\0",
    "é" * 40,
    [],
    [1, [2]],
    {},
    {"a": {"b": 1}},
]


@st.composite
def mutations(draw: st.DrawFn, retype: bool) -> Doc:
    """G0 or G3 with one to four fields or events dropped, doubled, swapped, or retyped."""
    doc = copy.deepcopy(draw(st.sampled_from([g0(), gn(3)])))
    for _ in range(draw(st.integers(1, 4))):
        event = doc.events[draw(st.integers(0, len(doc.events) - 1))]
        inside = (
            draw(st.booleans()) and isinstance(event.get("args"), dict) and bool(event.get("args"))
        )
        fields = event["args"] if inside else event
        if not fields:
            continue
        key = draw(st.sampled_from(sorted(fields)))
        other = draw(st.sampled_from(sorted(fields)))
        change = draw(
            st.sampled_from(["drop", "copy", "swap", "retype"] if retype else ["drop", "copy"])
        )
        if change == "drop":
            del fields[key]
        elif (
            change == "copy" and event.get("name") != "ProfilerStep#2"
        ):  # of two equal steps either may hold the work
            doc.events.append(copy.deepcopy(event))
        elif change == "swap":
            fields[key], fields[other] = fields[other], fields[key]
        elif change == "retype":
            fields[key] = draw(st.sampled_from(ODD_VALUES))
    return doc


def hypothesis_settings(sample: int) -> settings:
    return settings(
        max_examples=examples(sample),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@hypothesis_settings(60)
@given(doc=mutations(retype=True))
def test_wrong_fields_never_break_it(doc: Doc, tmp_path: Path) -> None:
    """Whatever a field holds, the trace opens, every record is counted, and the JSON is valid."""
    path = tmp_path / "t.json"
    path.write_bytes(doc.bytes())
    opened = open_at(path)
    assert opened.ledger.seen == len(doc.events)
    assert opened.ledger.seen == opened.ledger.kept + opened.ledger.repaired + opened.ledger.skipped
    json.dumps(opened.doc, allow_nan=False)


@hypothesis_settings(60)
@given(doc=mutations(retype=False))
def test_missing_and_doubled_fields_agree(doc: Doc, tmp_path: Path) -> None:
    """With fields missing and events doubled, the numbers are still those of the slow reader."""
    path = tmp_path / "t.json"
    path.write_bytes(doc.bytes())
    assert_agree(open_at(path), reference_reader.read(doc.bytes()))


MUCH = 1_000_000 if DEEP else 300_000
FILLERS = [
    b" ",
    b"\n",
    b",",
    b"}",
    b"{",
    b"[",
    b"]",
    b'"',
    b"\\",
    b'"a":',
    b"},{",
    b'{"ph":',
    b"} ,",
]
PLACES = {
    "before": 0,
    "events": b'"traceEvents": [',
    "between": b"  },",
    "args": b'"args": {',
    "name": b"aten:",
    "end": None,
}


@pytest.mark.parametrize("filler", FILLERS, ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_much_of_one_thing(filler: bytes, place: str, tmp_path: Path) -> None:
    """Read once, not once for every byte of it: the hang guard of the suite is what would fail
    here.
    """
    data, mark = gn(2).bytes(), PLACES[place]
    at = (
        mark
        if isinstance(mark, int)
        else len(data)
        if mark is None
        else data.index(mark) + len(mark)
    )
    path = tmp_path / "t.json"
    path.write_bytes(data[:at] + filler * (MUCH // len(filler)) + data[at:])
    with contextlib.suppress(TraceError):
        ledger = foretrace.open(path, cache=False).ledger
        assert ledger.seen == ledger.kept + ledger.repaired + ledger.skipped
