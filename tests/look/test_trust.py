"""What a recording lost or distorts: one small recording for each cause, and a sound one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from corpus.build import Doc, Event
from corpus.builder import TraceBuilder
from foretrace.base.tables import text as drawn
from foretrace.look import summarize
from foretrace.look.lines import first_screen, sections
from foretrace.look.trust import MILD
from opened_traces import open_made

KINETO = "WARNING:2026-05-26 10:00:00 7:7 Config.cpp:321] "


def launches(
    *lost: int, length: int = 10_000, every: int = 20, header: Event | None = None
) -> TraceBuilder:
    """Launches 100 us apart, each with a kernel unless it is `lost`."""
    made = TraceBuilder(header=header)
    for number in range(every):
        at = 100_000 * number
        made.op("aten::mul", at, 40_000).launch(at + 5_000, 5_000)
        if number not in lost:
            made.kernel("mul", at + 20_000, length)
    return made


def overlapped(gap: int) -> TraceBuilder:
    """Pairs of kernels on one stream: the second starts `gap` ns after the first, and both take 10 us."""
    made = TraceBuilder()
    for number in range(10):
        at = 100_000 * number
        made.op("aten::mm", at, 40_000).launch(at + 5_000, 2_000).kernel(
            "nvjet", at + 20_000, 10_000
        )
        made.launch(at + 8_000, 2_000).kernel("splitKreduce_kernel", at + 20_000 + gap, 10_000)
    return made


def overrun() -> TraceBuilder:
    """The first kernel ends after the second, which its stream runs later."""
    made = launches(every=3)
    made.events[next(at for at, each in enumerate(made.events) if each["cat"] == "kernel")][
        "dur"
    ] = "950.000"
    return made


def stacked(own: int) -> TraceBuilder:
    """A hundred frames of `own` ns in 1 ms of the host, and a kernel."""
    made = TraceBuilder(header={"with_stack": 1})
    made.frame("run.py(1): main", 0, 1_000_000)
    for number in range(99):
        made.frame("model.py(7): forward", 10_000 * (number + 1), own)
    return made.op("aten::mul", 995_000, 4_000).launch(996_000, 1_000).kernel("mul", 998_000, 1_000)


def waits(length: int) -> TraceBuilder:
    """The host waits 492 ms in one copy, and no GPU event is there; a kernel may run later."""
    made = TraceBuilder().op("aten::copy_", 0, 493_000_000).call("hipMemcpy", 1_000, 492_000_000)
    return made.launch(495_000_000, 1_000).kernel("k", 496_000_000, length) if length else made


def look(made: TraceBuilder | Doc, folder: Path) -> Any:
    return summarize(open_made(made, folder))


SAID = {
    "dropped at the start": (
        launches(0, 1, 2),
        ["gpu_events_missing: the first 3 of 20 launches (15.0%) have no GPU event in this trace"],
    ),
    "dropped at the end": (
        launches(19),
        ["gpu_events_missing: the last 1 of 20 launches (5.0%) have no GPU event in this trace"],
    ),
    "dropped here and there": (
        launches(3, 8),
        ["gpu_events_missing: 2 of 20 launches (10.0%) have no GPU event in this trace"],
    ),
    "all out of range": (
        launches(*range(20)),
        ["gpu_events_missing: all 20 of 20 launches (100.0%) have no GPU event in this trace"],
    ),
    "programmatic dependent launch": (
        overlapped(7_000),
        ["stream_overlap: 10 GPU events start before the one ahead on their stream has ended"],
    ),
    "a duration that overflows": (
        overrun(),
        [
            "dur_overrun: 1 GPU events outlast the next one on their stream: 950,000 ns as written, "
            "100,000 ns if each ends where the next begins"
        ],
    ),
    "CUPTI that stays": (
        launches(header={"DISABLE_CUPTI_LAZY_REINIT": 1}),
        ["cupti_attached: CUPTI stayed attached when the recording ended"],
    ),
    "counters that Kineto does not know": (
        launches(header={"WARNING": [f"{KINETO}Unrecognized config line: CUPTI_PROFILER_METRICS=a.sum"]}),
        ["counters_empty: counters were asked for, and Kineto recorded none"],
    ),
    "stacks": (
        stacked(1_500),
        ["stacks: recording 100 Python frames took about 120 us of 1.00 ms on the host"],
    ),
    **{
        f"a wait for what is not recorded, {length} ns after it": (
            waits(length),
            [
                "unrecorded: what the GPU did for 492 ms is not recorded: the host waits in one "
                "hipMemcpy (aten::copy_), and the trace has no GPU event then"
            ],
        )
        for length in (0, 10_000, 10_000_000)
    },
}  # fmt: skip
# Each is near one of those above, and sound.
SOUND = {
    "every launch has its kernel": launches(),
    "warm-up steps are out of range": launches(
        header={"INFO": ["Record counts: Out-of-range = 3829"]}
    ),
    "a kernel that starts when the one ahead ends": overlapped(10_000),
    "other warnings": launches(header={"WARNING": [f"{KINETO}Unrecognized config line: A=b", 7]}),
    "CUPTI that went": launches(header={"DISABLE_CUPTI_LAZY_REINIT": 0}),
    "quick frames": stacked(300),
}


@pytest.mark.parametrize("name", SAID)
def test_a_cause_has_its_words_its_effect_and_its_reference(name: str, tmp_path: Path) -> None:
    made, said = SAID[name]
    found = look(made, tmp_path)
    assert [f"{each.cause}: {each.text}" for each in found.look.trust] == said
    text = said[0].partition(": ")[2]
    cause = found.look.trust[0].cause
    line = found.lines[-1 if cause in MILD else 0]  # what is at stake comes before the verdict
    assert (line.label, line.text) == ("TRUST", f"{text} [{cause}]")
    page = " ".join(drawn(sections(found, ["findings"], 0)).split())
    assert text not in page.rpartition(" Read ")[2]  # not a note of the ledger as well
    assert f"see {found.look.trust[0].reference}".casefold() in page.casefold()


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_recording_says_nothing(name: str, tmp_path: Path) -> None:
    found = look(SOUND[name], tmp_path)
    assert found.look.trust == []
    assert "TRUST" not in drawn(first_screen(found))


def test_the_most_harmful_first_and_the_rest_by_name(tmp_path: Path) -> None:
    made = launches(
        0, header={"DISABLE_CUPTI_LAZY_REINIT": 1, "WARNING": ["as 0 ranges were found"]}
    )
    for number in range(1, 20):
        made.kernel("reduce", 100_000 * number + 29_000, 10_000, correlation=number + 1)
    found = look(made, tmp_path)
    line = " ".join(found.lines[0].text.split())
    assert line == (
        "the first 1 of 20 launches (5.0%) have no GPU event in this trace "
        "[gpu_events_missing] · launches share a "
        "correlation id; a kernel links to the nearest earlier one (19) [corr_duplicate] · also counters_empty (1), "
        "stream_overlap (19), cupti_attached (1)"
    )


def test_a_kernel_ends_a_cut_file_where_it_was_launched(tmp_path: Path) -> None:
    """The GPU is far behind: every kernel begins after both steps."""
    made = TraceBuilder().step(0, 0, 100_000).step(1, 100_000, 100_000)
    for at in (10_000, 50_000, 110_000, 150_000):
        made.op("aten::mul", at, 9_000).launch(at + 1_000, 2_000)
        made.kernel("mul", at + 500_000, 30_000)
    pieces, path = made.bytes().split(b"aten::mul"), tmp_path / "cut.json"
    for kept, of_part in ((2, True), (3, False)):
        path.write_bytes(b"aten::mul".join(pieces[: kept + 1]))
        said = ft.look(path).verdict.text
        assert "GPU busy 60.0 of 83.3 us per step" in said
        assert said.startswith("a part of a step only: ") is of_part
