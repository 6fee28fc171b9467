"""What a page says of a kernel by case, against `look --json` and the raw launches."""

from __future__ import annotations

import pytest

import foretrace
from foretrace.model.trace import Trace
from foretrace.read.recordings import traces
from foretrace.show.html.trace_facts import CaseRow, case_rows
from foretrace.show.overview import look


@pytest.fixture(scope="module", params=sorted(traces()))
def trace(request: pytest.FixtureRequest) -> Trace:
    return foretrace.open(traces()[request.param], cache=False)


@pytest.fixture(scope="module")
def rows(trace: Trace) -> list[CaseRow]:
    return case_rows(trace)


def test_rows_say_what_look_says(trace: Trace, rows: list[CaseRow]) -> None:
    same = ("count", "total_ns", "bound", "limited_by", "cost_certainty", "modules", "chain")
    said = [(row.name, *(getattr(row, name) for name in same)) for row in look(trace).kernels]
    mine = [(trace.host.names[row.name], *(getattr(row, name) for name in same)) for row in rows]
    assert sorted(map(str, mine)) == sorted(map(str, said))


def test_the_nearest_roof_has_the_percent_of_look(rows: list[CaseRow]) -> None:
    for row in rows:
        if row.bound in ("compute", "memory") and row.roof_percent is not None:
            shares = {share.roof: share.percent for share in row.roofs}
            roof = row.precision if row.bound == "compute" else "HBM"
            assert shares[roof] == pytest.approx(row.roof_percent)
        assert all(0 <= share.percent <= 100 for share in row.roofs)


def test_steps_hold_the_launches_of_each(trace: Trace, rows: list[CaseRow]) -> None:
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
