"""Where findings are on a timeline, and kernels by case, as a page reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace
from foretrace.pages.insights import insights, place_of
from foretrace.pages.timeline import Outline, Timeline
from foretrace.pages.trace_facts import PageKernel, facts, page_kernels
from foretrace.read.recordings import traces
from foretrace.trace.trace import Trace
from opened_traces import opened, overview


@pytest.fixture(scope="module")
def eager() -> tuple[foretrace.Trace, Outline]:
    trace = opened(traces()["mlp_eager"])
    timeline = Timeline(trace)
    return trace, timeline.outline(timeline.typical_step)


def test_every_finding_has_a_place_and_gaps_one_in_one_step(
    eager: tuple[foretrace.Trace, Outline],
) -> None:
    trace, outline = eager
    told = overview(traces()["mlp_eager"])
    findings = [row for row in told.look.findings if row.state == "found"]
    made = insights(trace, told, outline)
    fixes, found = made[: -len(findings)], made[-len(findings) :]
    assert [each.about for each in fixes] == ["fix"] * len(told.look.fixes)
    assert len({each.key for each in made}) == len(made)
    for finding, insight in zip(findings, found, strict=True):
        place = insight.place
        ranges = [
            (start + outline.origin_ns, end + outline.origin_ns, gpu)
            for start, end, gpu in place.shades
        ]
        assert ranges == [*finding.ranges]
        assert [event for event, *_ in place.events] == [*finding.events]
        assert (place.frame is None) == (not finding.events and not finding.ranges)
    (idle,) = [each.place for each in found if each.key == "idle_gaps"]
    assert idle.frame is not None
    step = outline.steps[1]
    assert step.start + trace.gpu.lag <= idle.frame[0] < idle.frame[1] <= step.last
    assert idle.frame == (
        min(start for start, _, _ in idle.shades),
        max(end for _, end, _ in idle.shades),
    )


def test_what_is_first_is_what_the_terminal_says(eager: tuple[foretrace.Trace, Outline]) -> None:
    trace, outline = eager
    told = overview(traces()["mlp_eager"])
    first = insights(trace, told, outline)[0]
    (line,) = [line for line in told.lines if line.label == first.label]
    assert line.text.startswith(f"{first.title}: {first.detail}")


def test_an_event_of_a_capture_is_not_on_the_timeline(
    eager: tuple[foretrace.Trace, Outline],
) -> None:
    trace, outline = eager
    assert place_of(trace, [trace.host.count + 3], [], outline).events == []


def test_tables_of_a_step_and_of_the_recording_add_up(
    eager: tuple[foretrace.Trace, Outline],
) -> None:
    trace, outline = eager
    made = facts(trace, "t", outline)
    for tables in (made.times.step, made.times.recording):
        for table in tables:
            assert len(table.to) in (0, len(table.cells))
            share = [column.name for column in table.columns].index("share")
            assert sum(row[share] or 0 for row in table.values) == pytest.approx(1, abs=0.01)
    kernels = made.times.recording[1]
    assert sorted(kernels.to) == sorted(f"kernel {at}" for at in range(len(made.kernels)))


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
