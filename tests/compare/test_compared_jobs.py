"""Two jobs side by side: the verdict with the noise of the steps, who is last, the network."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from foretrace.base.errors import UsageError
from foretrace.base.tables import encode, marked, text
from foretrace.compare.fail_if import condition as read_condition
from foretrace.compare.fail_if import of_jobs
from foretrace.compare.jobs import CompareJobsDocument, compare_jobs, page
from foretrace.jobs.documents import JobDocument
from job_documents import MS, job_document


def test_a_straggler_that_is_gone_is_what_the_step_saves() -> None:
    found = compare_jobs(job_document(), job_document(slow=None))
    assert (found.verdict.answer, found.verdict.saves_at_least_ns) == ("faster", 2 * MS)
    assert found.verdict.text == "2.00 ms less per step: 12.0 to 10.0 ms per step (0.83x)"
    times = {each.what: (each.a, each.b) for each in found.times}
    assert times["step"] == (12.01 * MS, 10.01 * MS)
    assert times["wait"] == (1.5 * MS, 0)
    assert times["compute"] == (8.5 * MS, 8 * MS)
    assert found.last_a is not None
    assert (found.last_a.rank, found.last_a.delays_ns, found.last_a.cause) == (3, 2 * MS, "compute")
    assert found.last_b is None
    assert "waits for late ranks: 1.50 ms to 0 ns (0.00x)" in found.changed
    assert "GPU idle: 1.00 to 1.00 ms, no change beyond the noise" in found.unchanged
    assert "all-reduce, 25.0 MB over 4 ranks: 218 to 218 GB/s on the bus (1.00x)" in found.unchanged


@pytest.mark.parametrize(
    ("a", "b", "answer", "why"),
    [
        (job_document(), job_document(late_ms=2.001), "inconclusive", "within the noise of 0.4%"),
        (job_document(steps=1), job_document(steps=1, slow=None), "inconclusive", "measured once"),
        (job_document(4), job_document(8), "different", "4 ranks in A, 8 in B"),
    ],
    ids=["noise", "one step", "other size"],
)
def test_what_does_not_decide(a: JobDocument, b: JobDocument, answer: str, why: str) -> None:
    verdict = compare_jobs(a, b).verdict
    assert verdict.answer == answer
    assert why in verdict.text


def test_idle_time_alone_does_not_decide() -> None:
    a = job_document(slow=None)
    more = [replace(cell, wall_ns=cell.wall_ns + MS, idle_ns=cell.idle_ns + MS) for cell in a.cells]
    verdict = compare_jobs(a, replace(a, cells=more)).verdict
    assert verdict.answer == "inconclusive"
    assert "profiler overhead" in verdict.text


def test_steps_that_a_recording_cut_do_not_count() -> None:
    a = job_document()
    cut = replace(a, cells=[replace(cell, whole=cell.step > 0) for cell in a.cells])
    found = compare_jobs(a, cut)
    assert (found.steps_a, found.steps_b) == (3, 2)
    none = compare_jobs(a, replace(a, cells=[]))
    assert none.verdict.text == "no whole step in B"
    assert text(page(none))


def test_a_faster_network_is_named() -> None:
    a = job_document()
    rows = [replace(row, bus_gbps=(row.bus_gbps or 0) * 2) for row in a.network]
    found = compare_jobs(a, replace(a, network=[*rows, *rows]))
    assert [row.ratio for row in found.network] == [2, 2]
    assert "all-reduce, 25.0 MB over 4 ranks: 218 to 436 GB/s on the bus (2.00x)" in found.changed


@pytest.mark.parametrize(
    ("condition", "met", "text"),
    [
        ("step.time > 1.05 * a.step.time", True, "measured 12.0 ms, 10.5 ms"),
        ("step.time > 1.5 * a.step.time", False, "measured 12.0 ms, 15.0 ms"),
        ("wait.time > 1 ms", True, "measured 2.00 ms"),
        ("idle > 2 * a.idle", False, "measured 8.3%, 20.0%"),
    ],
)
def test_a_condition_on_two_jobs(condition: str, met: bool, text: str) -> None:
    given = [read_condition(condition, "jobs")]
    (outcome,) = of_jobs(given, job_document(slow=None), job_document())
    assert (outcome.met, outcome.text) == (met, text)


def test_a_condition_on_traces_is_none_on_jobs() -> None:
    with pytest.raises(UsageError, match="--fail-if cannot be read"):
        read_condition("gpu.time > 1.05 * a.gpu.time", "jobs")
    nothing = replace(job_document(), ranks=[])
    with pytest.raises(UsageError, match="cannot be decided"):
        of_jobs([read_condition("step.time > a.step.time", "jobs")], job_document(), nothing)


def test_the_page_fits_a_screen_and_the_document_its_schema() -> None:
    a = job_document()
    many = replace(a, network=[replace(a.network[0], message_bytes=size) for size in range(1, 60)])
    found = compare_jobs(many, many)
    shown = text(page(found), width=80)
    assert len(shown.splitlines()) <= 25
    assert "more (--json)" in shown
    assert "| all-reduce |" in marked(page(found))
    assert msgspec.json.decode(encode(found), type=CompareJobsDocument) == found
