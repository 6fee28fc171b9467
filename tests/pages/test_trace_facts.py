"""Where findings are on a timeline, and kernels by case, as a page reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace
from foretrace.look.finding import Finding
from foretrace.pages.timeline import Outline, Timeline
from foretrace.pages.trace_facts import PageKernel, page_kernels, places
from foretrace.read.recordings import traces
from foretrace.trace.trace import Trace
from opened_traces import opened, overview


def found(name: str, **more: list[object]) -> Finding:
    given = {"events": [], "ranges": []} | more
    return Finding(name, "found", "", "", None, {}, given["events"], "", given["ranges"])


@pytest.fixture(scope="module")
def eager() -> tuple[foretrace.Trace, Outline]:
    trace = opened(traces()["mlp_eager"])
    timeline = Timeline(trace)
    return trace, timeline.outline(timeline.typical_step)


def test_every_finding_has_a_place_and_gaps_one_in_one_step(
    eager: tuple[foretrace.Trace, Outline],
) -> None:
    trace, outline = eager
    findings = overview(traces()["mlp_eager"]).look.findings
    made = places(trace, findings, outline)
    assert len(made) == len(findings)
    assert len({place.key for place in made}) == len(made)
    for finding, place in zip(findings, made, strict=True):
        ranges = [
            (start + outline.origin_ns, end + outline.origin_ns, gpu)
            for start, end, gpu in place.shades
        ]
        assert ranges == [*finding.ranges]
        assert [event for event, *_ in place.events] == [*finding.events]
        assert (place.frame is None) == (not finding.events and not finding.ranges)
    (idle,) = [place for place in made if place.key == "idle_gaps"]
    assert idle.frame is not None
    step = outline.steps[1]
    assert step.start + trace.gpu.lag <= idle.frame[0] < idle.frame[1] <= step.last
    assert idle.frame == (
        min(start for start, _, _ in idle.shades),
        max(end for _, end, _ in idle.shades),
    )


def test_an_event_of_a_capture_is_not_on_the_timeline(
    eager: tuple[foretrace.Trace, Outline],
) -> None:
    trace, outline = eager
    (place,) = places(trace, [found("own", events=[trace.host.count + 3])], outline)
    assert place.events == []


@pytest.fixture(scope="module", params=sorted(traces()))
def trace(request: pytest.FixtureRequest) -> Trace:
    return opened(traces()[request.param])


@pytest.fixture(scope="module")
def rows(trace: Trace) -> list[PageKernel]:
    return page_kernels(trace)


def test_rows_say_what_look_says(trace: Trace, rows: list[PageKernel]) -> None:
    document = overview(Path(trace.path)).look
    same = ("count", "total_ns", "bound", "limited_by", "cost_certainty", "modules", "chain")
    said = [(row.name, *(getattr(row, name) for name in same)) for row in document.kernels]
    mine = [(row.name, *(getattr(row, name) for name in same)) for row in rows]
    assert sorted(map(str, mine)) == sorted(map(str, said))


def test_steps_hold_the_launches_of_each(trace: Trace, rows: list[PageKernel]) -> None:
    frame = trace.kernels
    for number, row in enumerate(rows):
        events = trace.kernel_cases["kernels"][number].to_list()
        mine = frame.filter(frame["id"].is_in(events))
        wanted = [
            (len(own), int(own["dur_ns"].sum()))
            for own in (mine.filter(mine["step"] == step) for step in range(len(row.steps)))
        ]
        assert row.steps == wanted
        if row.per_step is not None:
            assert sum(count for count, _ in row.steps) == row.per_step * len(row.steps)
