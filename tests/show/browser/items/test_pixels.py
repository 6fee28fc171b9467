"""Busy time read off the canvas: the pixels of a GPU's strip add up to what the tables say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretrace.model.intervals import union_length
from foretrace.model.trace import Trace
from foretrace.read.recordings import decoding, ladder, traces
from foretrace.show.html.page import page as page_of
from foretrace.show.html.page import write_page
from foretrace.show.html.report import Report
from foretrace.show.html.timeline import Timeline
from foretrace.show.html.trace_facts import TraceFacts, facts
from opened_traces import opened
from show.browser.looks import Look, Page
from sweep import part

pytestmark = pytest.mark.browser
RECORDINGS = {**traces(), **ladder(), **decoding()}
# a page has recordings of one scale
NAMES = part(sorted(RECORDINGS, key=lambda name: RECORDINGS[name].stat().st_size), every=3)
PAGES = [NAMES[at : at + 10] for at in range(0, len(NAMES), 10)]
# Parts of a step, beside the whole of the recordings: they begin and end between pixels.
ZOOMS = ((0.0, 1.0), (0.113, 0.497), (0.31, 0.3617), (0.6, 0.6131))
READ = """
    (async () => {
        const {store, traces} = foretrace, read = [];
        const strips = foretrace.layout().rows.filter((row) => row.kind === 'strip').map((row) => row.key);
        store.set({pinned: strips});
        const frame = () => new Promise(requestAnimationFrame);
        const canvas = document.querySelector('.timeline canvas.tracks'), pen = canvas.getContext('2d');
        for (const [from, to] of arguments[0]) {
            store.set({view: {from, to}});
            await frame(); await frame(); await frame();
            const {width, rows, from: seenFrom, to: seenTo} = foretrace.layout();
            for (const {kind, trace, gpu, top, height} of rows) if (kind === 'strip') {
                const {data} = pen.getImageData(0, top, width, height);
                let sum = 0;
                for (let at = 3; at < data.length; at += 4) sum += data[at];
                const {zero, source} = traces[trace];
                const {busyNs} = await source.rangeStats({from: seenFrom + zero, to: seenTo + zero});
                read.push([trace, gpu, zero, seenFrom, seenTo, width, sum / 255 / height, busyNs]);
            }
        }
        return read;
    })()
"""


def busy_ns(trace: Trace, gpu: int, origin_ns: int, start: float, end: float) -> int:
    """The busy time of a GPU between two moments after the first event, from the events."""
    work, edges = trace.gpu, (round(start), round(end))
    mine = np.flatnonzero(work.usable & (work.device_number == gpu))
    first, last = (np.clip(time[mine] - origin_ns, *edges) for time in (work.start, work.end))
    return union_length(first, last)


def entry(trace: Trace, timeline: Timeline) -> TraceFacts:
    """A trace with all its events, and without a comparison: ten would take long to compare."""
    shown = timeline.outline(timeline.typical_step)
    shown.events, shown.left_out = timeline.packed(np.arange(len(timeline))), 0
    return facts(trace, "", shown)


@pytest.mark.parametrize("names", PAGES, ids=lambda names: names[0])
def test_the_pixels_of_a_strip_are_its_busy_time(
    page: Page, tmp_path: Path, names: list[str]
) -> None:
    recorded = [opened(RECORDINGS[name]) for name in names]
    timelines = [Timeline(trace) for trace in recorded]
    shown = [entry(*each) for each in zip(recorded, timelines, strict=True)]
    report = write_page(
        tmp_path / "recordings.html", page_of("all", Report(shown, None, None, None)), []
    )
    page.show(report, Look(1440, False))
    zeros = page.run("return foretrace.traces.map((trace) => trace.zero)")
    first = min(-zero for zero in zeros)
    last = max(line.end_ns - zero for line, zero in zip(timelines, zeros, strict=True))
    step = max((span.last - span.start for line in timelines for span in line.steps), default=last)
    ranges = [[first, last], *([step * part for part in zoom] for zoom in ZOOMS)]
    read: list[Any] = page.answer(READ, ranges)
    assert len(read) == len(ranges) * len(names)
    assert sum(row[6] > 1 for row in read) > len(read) / 2  # most show work
    for trace, gpu, zero, start, end, width, pixels, stated in read:
        origin = timelines[trace].origin_ns
        busy = busy_ns(recorded[trace], gpu, origin, start + zero, end + zero)
        pixel = (end - start) / width
        assert pixels * pixel == pytest.approx(busy, abs=max(pixel, 2)), names[trace]
        assert stated == pytest.approx(busy, abs=2), names[trace]
