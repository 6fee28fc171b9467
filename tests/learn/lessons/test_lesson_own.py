"""A lesson on any trace: every question is decided, and raw events give the same answers."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.base.errors import UsageError
from foretrace.cli import main
from foretrace.learn.lessons.documents import HowMany, LessonStep, PickOne
from foretrace.learn.lessons.lines import WIDTH, asked_text, end_text, marked_text, title_text
from foretrace.learn.lessons.own import own_sitting
from foretrace.learn.lessons.sitting import Sitting, right_answer
from foretrace.read import recordings
from look.rules.sketch import Sketch, kernel
from opened_traces import open_made

RECORDED = Path(__file__).parents[2] / "recorded"
PUBLIC = Path(os.environ.get("FORETRACE_PUBLIC_TRACES", "nowhere"))
# eager, compiled, attention, copies, streams
NAMES = ("copies_pageable", "streams_overlap", "attention_train_flash")
TRACES = [
    *(recordings.traces()[name] for name in ("mlp_eager", "mlp_compiled", "mlp_eager_train")),
    *(RECORDED / f"{name}.json.gz" for name in NAMES),
    *sorted(PUBLIC.glob("*.json.gz")),
]
LONGEST = 80  # lines, for four questions that are all answered wrongly


@cache
def sitting_on(path: Path, most: int = 4) -> Sitting:
    return own_sitting(ft.open(path, cache=False), most)


def wrong_answers(step: LessonStep, right: str) -> list[str]:
    if isinstance(step.ask, PickOne):
        return [str(at) for at in range(1, len(step.ask.choices) + 1) if str(at) != right]
    return [str(int(right) + 1)]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_every_question_is_decided_explained_and_drawn(path: Path) -> None:
    played = sitting_on(path)
    lines = [title_text(played.lesson)]
    for at, step in enumerate(played.lesson.steps):
        right = right_answer(step, played.scene(step))
        for answer in (right, *wrong_answers(step, right)):
            played.at = at
            found = played.answer(answer)
            assert found.verdict == ("hit" if answer == right else "miss")
            assert bool(found.misread) is (answer != right)
            assert "not in the trace" not in found.why + found.misread
            lanes = found.lanes
            slices = (*lanes.ranges, *lanes.ops, *lanes.inside, *lanes.calls, *lanes.gpu)
            assert any(one.decides for one in slices), step.show
            assert all(0 <= one.start_ns <= one.end_ns <= lanes.length_ns for one in slices)
            assert found.row.calls > 0, step.row
        lines += ["", asked_text(played.asked(at)), f"> {answer}", marked_text(found)]
    lines = "\n".join([*lines, "", end_text(played.document())]).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= LONGEST, "\n".join(lines)


def answered(path: Path) -> dict[str, str]:
    """The text of the right choice, or the right number, by the beginning of the question."""
    played, found = sitting_on(path, 6), {}
    for step in played.lesson.steps:
        right = right_answer(step, played.scene(step))
        text = step.ask.choices[int(right) - 1].text if isinstance(step.ask, PickOne) else right
        found[" ".join(step.ask.text.split()[:2])] = text
    return found


@pytest.mark.parametrize("name", ["mlp_eager", "mlp_compiled", "mlp_eager_train"])
def test_raw_events_give_the_same_answers(name: str) -> None:
    path = recordings.traces()[name]
    answers, (kernels, launched, ops) = answered(path), raw_step(path)
    assert holds(answers["How many"], len(kernels))
    times = Counter[str]()
    for each in kernels:
        times[each["name"]] += each["dur"]
    top, time = times.most_common(1)[0]
    assert holds(answers["No kernel"], 100 * time / sum(times.values()))
    launches = [launched[k["args"]["correlation"]] for k in kernels if k["name"] == top]
    above = [
        [op for op in ops if op["tid"] == launch["tid"] and _in(launch["ts"], op)]
        for launch in launches
    ]
    inner = {max(around, key=lambda op: op["ts"])["name"] for around in above}
    assert inner == {answers["Which op"]}


def holds(answer: str, value: float) -> bool:
    """Whether a value lies in `below 100`, `10% to 30%`, `60% or more`, or is the number."""
    edges = [float(edge) for edge in re.findall(r"[\d.]+", answer.replace(",", ""))]
    if answer.startswith("below"):
        return value < edges[0]
    if answer.endswith("more"):
        return value >= edges[0]
    return edges[0] <= value < edges[1] if len(edges) == 2 else value == edges[0]


Event = dict[str, Any]


def raw_step(path: Path) -> tuple[list[Event], dict[int, Event], list[Event]]:
    """The kernels of the step with the median GPU time, launches by correlation, host ops."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    timed = [event for event in events if event.get("ph") == "X"]
    calls = [e for e in timed if e["cat"] in ("cuda_runtime", "cuda_driver")]
    launched = {e["args"]["correlation"]: e for e in calls}
    work = [e for e in timed if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    marks = [e for e in timed if e["cat"] == "user_annotation"]
    found = []
    for step in (e for e in marks if e["name"].startswith("ProfilerStep")):
        mine = [e for e in work if _in(launched[e["args"]["correlation"]]["ts"], step)]
        found.append(sorted(mine, key=lambda e: e["ts"]))
    found.sort(key=_union)
    kernels = [e for e in found[(len(found) - 1) // 2] if e["cat"] == "kernel"]
    return kernels, launched, [e for e in timed if e["cat"] == "cpu_op"]


def _in(moment: float, event: dict[str, Any]) -> bool:
    return bool(event["ts"] <= moment < event["ts"] + event["dur"])


def _union(work: list[dict[str, Any]]) -> float:
    total, end = 0.0, float("-inf")
    for event in work:
        total += max(event["ts"] + event["dur"] - max(event["ts"], end), 0)
        end = max(end, event["ts"] + event["dur"])
    return total


def test_a_cpu_trace_is_asked_about_its_ops(tmp_path: Path) -> None:
    nested = [("aten::linear", 0, 90), ("aten::t", 2, 3), ("aten::addmm", 10, 70)]
    nested += [("aten::copy_", 12, 8), ("aten::relu", 92, 4), ("aten::t", 97, 2)]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1}
        for name, ts, dur in nested
    ]
    played = own_sitting(open_made({"traceEvents": events}, tmp_path, "cpu"), 6)
    asked = {step.ask.text: right_answer(step, played.scene(step)) for step in played.lesson.steps}
    assert asked["How many ops of the whole recording compute?"] == "3"
    assert asked["How often does the whole recording call aten::t?"] == "2"
    assert asked["How many different ops does one aten::linear run, itself included?"] == "4"
    assert asked["How many copies (aten::copy_) are in the whole recording?"] == "1"
    assert all(isinstance(step.ask, HowMany | PickOne) for step in played.lesson.steps)
    played.at = 0
    assert "Self CUDA" not in marked_text(played.answer("3"))


def test_a_range_of_torch_does_not_replace_the_ops(tmp_path: Path) -> None:
    """A DataLoader's range was drawn alone, in place of the ops that decide."""
    built = TraceBuilder(header={"deviceProperties": []}).step(1, 0, 100_000)
    built.region("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 90_000, 5_000)
    built.op("aten::linear", 0, 60_000).op("aten::addmm", 1_000, 50_000)
    played = own_sitting(open_made(built, tmp_path, "cpu"), 6)
    drawn = played.answer(
        right_answer(played.lesson.steps[0], played.scene(played.lesson.steps[0]))
    )
    assert [each.label for each in drawn.lanes.ranges] == []
    assert drawn.lanes.ops


def test_a_name_from_a_trace_is_a_name_and_no_fact(tmp_path: Path) -> None:
    """Braces hold facts in a lesson; kernels of lambdas have braces in their names."""
    sketch = Sketch()
    for name in ("f<{lambda()#1}>\x1b[31m", '"quoted"', "plain_kernel"):
        sketch = sketch.step().op("aten::{add}", kernel(name, 8))
    played = own_sitting(open_made(sketch, tmp_path, "odd"))
    for at, step in enumerate(played.lesson.steps):
        played.at = at
        found = played.answer(right_answer(step, played.scene(step)))
        shown = asked_text(played.asked(at)) + marked_text(found)
        assert "\x1b" not in shown
        assert "not in the trace" not in shown


def test_a_trace_that_decides_nothing_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = Path(open_made(TraceBuilder().sync(0, 5_000), tmp_path, "bare").path)
    with pytest.raises(UsageError, match="too few questions can be marked on this trace"):
        own_sitting(ft.open(bare, cache=False))
    cut = tmp_path / "cut.json"
    cut.write_bytes(gzip.decompress(recordings.traces()["mlp_eager"].read_bytes())[:20_000])
    for path in (str(bare), str(cut), str(RECORDED)):
        assert main(["lesson", path, "--no-cache"]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["lesson", str(bare), "--live"]) == 2
    assert "is a trace" in capsys.readouterr().err


def test_the_command_takes_a_trace_and_keeps_no_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("5\nq\n"))
    assert main(["lesson", "mlp_eager", "--no-cache"]) == 0
    out = capsys.readouterr().out
    assert "How many kernels does one step launch?" in out
    assert "hit  It is 5." in out
    assert not list(tmp_path.rglob("lessons.json"))
