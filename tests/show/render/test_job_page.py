"""The page of a job, and chosen ranks side by side in a terminal, without a browser."""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl
from msgspec.structs import replace

from foretrace.schema.documents.job import JobVerdict
from foretrace.show.html.job_report import MOST_SPANS, job_html
from foretrace.show.html.page import Packed
from foretrace.show.render.job_page import job_timeline
from foretrace.show.render.terminal import drawn
from job_documents import MS, job_document
from job_lanes import job_lanes
from show.html.test_pieces import unpack


def data_of(text: str) -> dict[str, Any]:
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert block is not None
    found: dict[str, Any] = json.loads(block[1])
    return found


def test_the_page_says_what_the_terminal_says() -> None:
    data = data_of(job_html(job_document(), job_lanes()))
    assert (
        data["head"]["title"]
        == "run42 · 4 of 4 ranks on 2 hosts · NVIDIA H100 · 3 steps of 12.0 ms"
    )
    assert data["head"]["labelled"][0] == ["STRAGGLER", "rank 3 came last"]
    titles = [section["title"] for section in data["sections"]]
    assert {"Hosts", "Network", "Clocks, against the lowest rank"} <= set(titles)


def test_the_heat_map_has_every_rank_and_step() -> None:
    document = job_document(4, 3)
    cells = [cell for cell in document.cells if (cell.rank, cell.step) != (2, 1)]
    cells[0] = replace(cells[0], whole=False, wait_ns=None)
    heat = data_of(job_html(replace(document, cells=cells), None))["heat"]
    values = unpack(Packed(**heat["values"]))
    assert (heat["ranks"], heat["steps"], heat["cut"]) == ([0, 1, 2, 3], [0, 1, 2], [0])
    assert values["time"][:3] == [12 * MS, 12 * MS + 10_000, 12 * MS + 20_000]
    assert values["time"][7] == -1
    assert values["wait"][0] == -1
    assert values["wait"][3] == 2 * MS
    assert [measure["name"] for measure in heat["measures"]] == ["time", "wait", "exposed"]
    lost = replace(document, verdict=JobVerdict("unknown", "no clocks fit"))
    measures = data_of(job_html(lost, None))["heat"]["measures"]
    assert [each["name"] for each in measures] == ["time", "exposed"], "no wait is known to be 0"


def test_a_thousand_ranks_stay_small() -> None:
    text = job_html(job_document(1_024, 10, slow=617, hosts=128), job_lanes(8, 10))
    assert len(text) < 4 << 20
    heat = data_of(text)["heat"]
    assert len(heat["ranks"]) == 1_024
    [clocks] = [each for each in data_of(text)["sections"] if each["title"].startswith("Clocks")]
    assert len(clocks["rows"]) == 1_024


def test_without_steps_waits_or_lanes_there_is_still_a_page() -> None:
    document = job_document()
    bare = replace(document, cells=[], network=[], path=None, ranks=document.ranks[:1])
    data = data_of(job_html(bare, None))
    assert (data["heat"], data["lanes"]) == (None, None)
    unknown = [replace(cell, wait_ns=None) for cell in document.cells]
    measures = data_of(job_html(replace(document, cells=unknown), None))["heat"]["measures"]
    assert [measure["name"] for measure in measures] == ["time", "exposed"]
    empty = replace(job_lanes(), spans=job_lanes().spans.clear())
    assert data_of(job_html(document, empty))["lanes"] is None


def test_arrows_lead_from_the_last_arrival() -> None:
    lanes = data_of(job_html(job_document(), job_lanes()))["lanes"]
    columns = unpack(Packed(**lanes["timeline"]["events"]))
    kinds = [lanes["kinds"][kind] for kind in columns["kind"]]
    starts = dict(zip(columns["event"], columns["start"], strict=True))
    lane_of = dict(zip(columns["event"], columns["lane"], strict=True))
    rows = list(zip(columns["event"], kinds, columns["launch"], columns["lane"], strict=True))
    assert {launch for _, kind, launch, _ in rows if kind == "compute"} == {-1}
    for event, kind, launch, lane in rows:
        if kind == "wait" or (kind == "transfer" and lane != 3):
            assert lane_of[launch] == 3
            assert kind == "wait" or starts[launch] == starts[event]
    assert [step["name"] for step in lanes["timeline"]["steps"]] == ["step 0", "step 1", "step 2"]
    assert lanes["timeline"]["step"] == 1  # that of the critical path


def test_rows_of_a_rank_hold_no_two_spans_at_once() -> None:
    lanes = job_lanes(2)
    twice = replace(lanes, spans=pl.concat([lanes.spans, lanes.spans]).sort("rank", "start_ns"))
    found = data_of(job_html(job_document(), twice))["lanes"]
    columns = unpack(Packed(**found["timeline"]["events"]))
    ends: dict[tuple[int, int], int] = {}
    rows = zip(*(columns[name] for name in ("lane", "row", "start", "length")), strict=True)
    for lane, row, start, length in rows:
        assert start >= ends.get((lane, row), 0)
        ends[lane, row] = start + length
    assert found["timeline"]["lanes"][0]["rows"] == 4


def test_too_many_spans_are_counted() -> None:
    lanes = job_lanes(4, 3)
    many = pl.concat([lanes.spans] * (MOST_SPANS // lanes.spans.height + 1)).sort(
        "rank", "start_ns"
    )
    found = data_of(job_html(job_document(), replace(lanes, spans=many)))["lanes"]["timeline"]
    assert found["events"]["rows"] == MOST_SPANS
    assert found["left_out"] == many.height - MOST_SPANS


def test_text_of_a_trace_stays_text() -> None:
    lanes, document = job_lanes(), job_document()
    named = lanes.spans.with_columns(pl.lit("</script><img onerror=alert(1)>\x1b[2J").alias("name"))
    ranks = [replace(each, host="<b>\u202ehost</b>") for each in document.ranks]
    laid = replace(lanes, spans=named, hosts=dict.fromkeys(range(4), "<i>\x1b"))
    text = job_html(replace(document, ranks=ranks), laid)
    body = text.split('id="data">')[1].split("</script>")[0]
    assert not re.search("[<>&\x1b\u202e]", body)
    assert "http://" not in text
    assert "https://" not in text
    assert "unsafe" not in text
    assert job_html(document, lanes) == job_html(document, lanes)
    timeline = drawn([job_timeline(laid, None)])
    assert "\x1b" not in timeline


TIMELINE = """\
Timeline of step 0: 12.0 ms, clocks aligned within 900 ns
  █ compute, = transfer, · waits for the last rank
    rank 0 (node-0) gpu   ████████████████████████████████
                    comms                                 ········========
    rank 3 (node-1) gpu   ████████████████████████████████████████
                    comms                                         ========
                          |0          |3.00 ms    |6.00 ms    |9.00 ms   |"""


def test_the_timeline_in_a_terminal() -> None:
    lanes = job_lanes()
    two = replace(lanes, ranks=(0, 3), spans=lanes.spans.filter(pl.col("rank").is_in([0, 3])))
    assert drawn([job_timeline(two, None, 74)], width=74) == TIMELINE
    assert "Timeline of step 2: " in drawn([job_timeline(two, 2)])
    unfitted = drawn([job_timeline(replace(two, error_ns=None), 2)])
    assert "not aligned: a clock could not be fitted" in unfitted
    nothing = replace(two, spans=two.spans.clear())
    assert "record no GPU work" in drawn([job_timeline(nothing, None)])
    for width in (80, 100, 200):
        text = drawn([job_timeline(lanes, None, width)], width=width)
        assert max(map(len, text.splitlines())) <= width
