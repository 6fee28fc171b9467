"""The page of a job, and chosen ranks side by side in a terminal, without a browser."""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl
from msgspec.structs import replace

from foretrace.base.tables import text as drawn
from foretrace.jobs.lines import job_timeline
from foretrace.pages.job_report import job_html
from foretrace.pages.page import Packed
from job_documents import job_document
from job_lanes import job_lanes
from pages.test_pieces import unpack


def data_of(text: str) -> dict[str, Any]:
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert block is not None
    found: dict[str, Any] = json.loads(block[1])
    return found


def test_a_thousand_ranks_stay_small() -> None:
    text = job_html(job_document(1_024, 10, slow=617, hosts=128), job_lanes(8, 10))
    assert len(text) < 4 << 20
    heat = data_of(text)["heat"]
    assert len(heat["ranks"]) == 1_024
    [clocks] = [each for each in data_of(text)["tables"] if each["title"].startswith("Clocks")]
    assert len(clocks["cells"]) == 1_024


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
