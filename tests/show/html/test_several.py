"""Several traces in one page: pairs, places of changes, marks, and what they are aligned by."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import foretrace
from foretrace.analyze.compare import compare, document
from foretrace.base.errors import UsageError
from foretrace.model.trace import Trace
from foretrace.read.recordings import traces
from foretrace.schema.documents import encode
from foretrace.show.html import report
from foretrace.show.html.changes import MARKS, Compared, all_marks, compared
from foretrace.show.html.report import _shown, titles
from foretrace.show.html.timeline import Timeline
from show.html.test_pieces import unpack

NAMES = ("mlp_eager", "mlp_compiled", "mlp_liger")


@pytest.fixture(scope="module")
def opened() -> list[Trace]:
    return [foretrace.open(traces()[name], cache=False) for name in NAMES]


@pytest.fixture(scope="module")
def timelines(opened: list[Trace]) -> list[Timeline]:
    return [Timeline(trace) for trace in opened]


@pytest.fixture(scope="module")
def found(opened: list[Trace], timelines: list[Timeline]) -> Compared:
    return compared(timelines, opened)


def data(page: str) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    loaded: dict[str, Any] = json.loads(found[1])
    return loaded


def test_each_trace_is_compared_with_the_first_and_with_the_one_above(
    opened: list[Trace], found: Compared
) -> None:
    assert [(pair.a, pair.b) for pair in found.pairs] == [(0, 1), (0, 2), (1, 2)]
    whole = json.loads(encode(document(compare(*opened))))
    first, second, _ = (json.loads(encode(pair.document)) for pair in found.pairs)
    assert first["work"] == whole["work"]
    assert second["work"] == whole["others"][0]["work"]
    assert second["gpu_ns"] == whole["others"][0]["gpu_ns"]


def test_every_operation_of_both_typical_repeats_is_in_one_place(
    opened: list[Trace], timelines: list[Timeline], found: Compared
) -> None:
    for pair in found.pairs:
        columns = unpack(pair.work)
        for side, trace in enumerate((opened[pair.a], opened[pair.b])):
            mine = [at for at, own in enumerate(columns["side"]) if own == side]
            events = [columns["event"][at] for at in mine]
            assert len({*events}) == len(events)
            rows = np.searchsorted(trace.gpu.id, events)
            origin = timelines[pair.a if side == 0 else pair.b].origin_ns
            starts = [columns["start"][at] + origin for at in mine]
            assert starts == trace.gpu.start[rows].tolist()
            for change, row in enumerate(pair.document.work):
                here = [at for at in mine if columns["change"][at] == change]
                assert len(here) == (row.b if side else row.a)
                assert sum(columns["length"][at] for at in here) == (row.ns_b if side else row.ns_a)
            names = trace.kernel_cases["name"].to_list()
            for at, event in zip(mine, events, strict=True):
                case = columns["case"][at]
                assert case < 0 or names[case] == trace.host.names[trace.host.name[event]]


def test_marks_of_the_first_trace_are_against_all(opened: list[Trace], found: Compared) -> None:
    first, second, third = all_marks(found, opened)
    kernels = opened[0].kernels
    short = dict(zip(kernels["id"].to_list(), kernels["short"].to_list(), strict=True))
    gone = {short[event] for event in np.flatnonzero(first == MARKS.index("gone")).tolist()}
    assert gone == {"gelu", "mul bf16"}
    assert (second == MARKS.index("new")).sum() == (third == MARKS.index("new")).sum() == 3
    assert (first[~np.isin(np.arange(len(first)), kernels["id"])] == -1).all()


def test_traces_are_aligned_by_the_compared_repeat_by_regions_and_by_steps(
    opened: list[Trace], timelines: list[Timeline], found: Compared
) -> None:
    anchors = found.anchors
    names = [anchor.name for anchor in anchors]
    assert names[:2] == ["mlp_fwd", "mlp_fwd, first GPU operation"]  # the host bounds Liger's
    by_gpu = compared(timelines[:2], opened[:2]).anchors
    assert [anchor.name for anchor in by_gpu[:2]] == names[1::-1]
    assert names[2::2] == ["step 0", "step 1", "step 2"]
    assert len({*names}) == len(names)
    for at, (trace, timeline) in enumerate(zip(opened, timelines, strict=True)):
        calls = [span.start_ns - timeline.origin_ns for span in trace.spans.regions]
        assert anchors[0].starts[at] in calls
        assert anchors[2].starts[at] == timeline.steps[0].start
        first = trace.gpu.start[trace.spans.steps[0].work].min() - timeline.origin_ns
        assert anchors[3].starts[at] == first
        assert all(anchor.starts[at] < anchor.ends[at] for anchor in anchors)


def test_a_page_of_three_traces_names_no_folder(opened: list[Trace]) -> None:
    page = data(report(opened))
    assert [trace["title"] for trace in page["traces"]] == list(NAMES)
    assert len(page["compared"]["pairs"]) == 3
    assert str(Path(traces()["mlp_eager"]).parent) not in json.dumps(page)


def test_too_many_traces_are_refused(opened: list[Trace]) -> None:
    with pytest.raises(UsageError, match="a report is about 1 to 8 traces, not 9"):
        report([opened[0]] * 9)


def test_a_page_without_room_keeps_gpu_work(timelines: list[Timeline]) -> None:
    timeline = timelines[0]
    on_gpu = np.array([lane.gpu for lane in timeline.lanes])[timeline.lane]
    kept = _shown(timeline, timeline.typical_step, int(on_gpu.sum()) + 5)
    assert on_gpu[kept].sum() == on_gpu.sum()
    step = timeline.steps[timeline.typical_step or 0]
    host = kept[~on_gpu[kept]]
    assert len(host) == 5
    assert (timeline.start[host] <= step.last).all()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["mlp_eager.json.gz"], ["mlp_eager.json.gz"]),
        (["mlp_eager.json.gz", "mlp_compiled.json.gz"], ["mlp_eager", "mlp_compiled"]),
        (["step_a_4x5.json", "step_b_4x5.json"], ["step_a", "step_b"]),
        (["before/t.json", "after/t.json"], ["t.json (1)", "t.json (2)"]),
        (["_a", "b_a"], ["_a", "b_a"]),
        (["json", "x.json"], ["json", "x.json"]),
    ],
)
def test_titles_lose_what_all_end_with(files: list[str], expected: list[str]) -> None:
    assert titles([cast("Trace", SimpleNamespace(path=file)) for file in files]) == expected
