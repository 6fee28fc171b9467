"""What a whole trace is noted for: durations that cannot be, cards that are not known, limits that
were reached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foretrace
from corpus.build import Doc, g0, gn
from corpus.builder import TraceBuilder
from foretrace.base.budget import Limits
from foretrace.read.ledger import CODES
from foretrace.trace.trace import Trace


def opened(doc: Doc, folder: Path, **limits: int) -> Trace:
    path = folder / "t.json"
    path.write_bytes(doc.bytes())
    return foretrace.open(path, cache=False, limits=Limits(**limits) if limits else None)


def note(trace: Trace, code: str) -> Any:
    return next((note for note in trace.ledger.notes if note.code == code), None)


def stretched(end_ns: int, **args: Any) -> Doc:
    """Three kernels, 300 us apart; the first runs until `end_ns`."""
    doc = gn(3)
    at = next(index for index, event in enumerate(doc.events) if event.get("cat") == "kernel")
    start = doc.events[at]["ts"]
    doc.edit(at, dur=type(start)(f"{end_ns / 1000:.3f}"))
    return doc.args(at, args) if args else doc


def test_a_kernel_that_outlasts_the_next(tmp_path: Path) -> None:
    trace = opened(stretched(400_000), tmp_path)
    assert note(trace, "dur_overrun").count == 1
    assert (
        "400,000 ns as written, 300,000 ns if each ends where the next begins"
        in note(trace, "dur_overrun").text
    )


@pytest.mark.parametrize(
    "doc", [stretched(310_000), stretched(400_000, **{"graph id": 3, "graph node id": 5})]
)
def test_an_overlap_and_a_graph_are_no_overrun(doc: Doc, tmp_path: Path) -> None:
    trace = opened(doc, tmp_path)
    assert note(trace, "dur_overrun") is None
    assert note(trace, "stream_overlap").count == 1


def test_a_card_that_is_not_in_the_table(tmp_path: Path) -> None:
    trace = opened(
        g0().head(deviceProperties=[{"id": 0, "name": "NVIDIA Z9000", "numSms": 7}]), tmp_path
    )
    assert "Z9000" in note(trace, "unknown_device").text
    assert note(opened(g0(), tmp_path), "unknown_device") is None


@pytest.mark.parametrize("events", [0, 1, 5, 25, 26, 27])
def test_reading_stops_at_the_limit_and_no_later(events: int, tmp_path: Path) -> None:
    whole = opened(gn(4), tmp_path)
    assert whole.ledger.seen == 26
    trace = opened(gn(4), tmp_path, events=events)
    assert trace.ledger.seen == trace.ledger.kept == min(events, 26)
    assert (note(trace, "limit_events") is None) == (events >= 26)


def odd(builder: TraceBuilder, folder: Path) -> dict[str, int]:
    codes = ("stream_unknown", "device_mismatch", "parent_cycle", "step_repeated", "name_missing")
    counts = {note.code: note.count for note in opened(builder.doc(), folder).ledger.notes}
    return {code: counts[code] for code in codes if code in counts}


def test_what_a_recording_says_twice_or_not_at_all(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 9_000).launch(1_000, 500)
    assert odd(builder.kernel("sgemm", 8_000, 1_000, stream=-1), tmp_path) == {"stream_unknown": 1}
    builder = TraceBuilder().step(1, 0, 50_000).step(1, 60_000, 9_000).kernel("", 8_000, 1_000)
    assert odd(builder, tmp_path) == {"step_repeated": 1, "name_missing": 1}


def test_a_device_that_is_not_that_of_its_row(tmp_path: Path) -> None:
    builder = TraceBuilder().kernel("sgemm", 8_000, 1_000, device=1).kernel("sgemm", 9_500, 1_000)
    builder.events[-1]["args"]["device"] = 1
    assert odd(builder, tmp_path) == {"device_mismatch": 1}


def test_callers_that_never_end(tmp_path: Path) -> None:
    """3 calls 4 calls 3; 1 calls 2."""
    builder = TraceBuilder()
    for at, (own, caller) in enumerate([(1, None), (2, 1), (3, 4), (4, 3)]):
        ids = {"Python id": own, "Python parent id": caller}
        builder.host("python_function", f"f{own}", 10_000 * at, 5_000, args=ids)
    assert odd(builder, tmp_path) == {"parent_cycle": 2}


@pytest.mark.parametrize("first", [0, 5_000])
def test_a_recording_may_begin_at_zero(first: int, tmp_path: Path) -> None:
    """Kernels at 0 whose ops begin later have lost their time; an op at 0 has not."""
    builder = TraceBuilder(origin_ns=0)
    for at in range(20):
        builder.op("aten::mm", first + 50_000 * at, 20_000).launch(first + 50_000 * at + 1_000, 500)
        builder.kernel("sgemm", first + 50_000 * at + 8_000, 4_000)
    builder.kernel("sgemm", 0, 4_000)
    trace = opened(builder.doc(), tmp_path)
    assert note(trace, "ts_out_of_window") is None
    assert (note(trace, "gpu_no_timestamp") is None) == (first == 0)


def test_every_code_of_the_ledger_is_noted_somewhere() -> None:
    """A code that nothing notes is a promise that is not kept."""
    sources = Path(foretrace.__file__).parent
    written = "".join(file.read_text("utf-8") for file in sources.rglob("*.py"))
    assert [code for code in CODES if f'"{code}"' not in written] == []
