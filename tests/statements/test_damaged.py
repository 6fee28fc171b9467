"""Statements about damaged traces that were false, one test each."""

from __future__ import annotations

from pathlib import Path

import foretrace as ft
from compare.traces import made, steps
from corpus.build import Doc, Raw, g0
from corpus.builder import TraceBuilder
from corpus.odd_content import absolute_us
from foretrace.compare import compare
from foretrace.compare.lines import circumstances
from foretrace.look import look
from foretrace.pages.export import chrome
from foretrace.pages.export.allowed import AllowList
from foretrace.trace.module_calls import AutogradNodes
from foretrace.trace.trace import Trace

EPOCH_US = Raw("1700000000000000.123")


def opened(folder: Path, data: bytes, name: str = "odd") -> Trace:
    path = folder / f"{name}.json"
    path.write_bytes(data)
    return ft.open(path, cache=False)


def shared(trace: Trace, path: Path) -> Trace:
    chrome.write(trace, path, AllowList())
    return ft.open(path, cache=False)


def one_kernel_elsewhere(builder: TraceBuilder) -> TraceBuilder:
    """One kernel has the times of another epoch."""
    kernels = [event for event in builder.events if event.get("cat") == "kernel"]
    kernels[1]["ts"] = EPOCH_US
    return builder


def test_whole_microseconds_are_called_so(tmp_path: Path) -> None:
    """The last stretch, read record by record, turned whole times into floating point."""
    trace = opened(tmp_path, absolute_us(g0()).bytes())
    (note,) = (note for note in trace.ledger.notes if note.code == "ts_precision")
    assert note.text == "times are whole microseconds: +-1000 ns"


def test_work_without_a_time_is_not_said_to_take_the_same(tmp_path: Path) -> None:
    """`SAME, 66.1 ms per call`, where no GPU time of B was known."""
    a = made(tmp_path, steps([9_000_000] * 3, kernels=4), "a")
    b = made(tmp_path, one_kernel_elsewhere(steps([9_000_000] * 3, kernels=4)), "b")
    assert b.ledger.count("time_outlier") == 1
    verdict = compare(a, b).verdict
    assert verdict.answer == "inconclusive"
    assert "the GPU time of B is unknown" in verdict.text
    assert compare(a, a).verdict.answer == "same"


def test_a_launch_counts_though_its_kernel_has_no_time(tmp_path: Path) -> None:
    """60 launches per step in one line, 59 in the next."""
    trace = made(tmp_path, one_kernel_elsewhere(steps([900_000] * 3, kernels=4)))
    (found,) = (each for each in look(trace).findings if each.rule == "launch_bound")
    assert found.evidence["launches"] == 4.0


def test_what_a_cut_lost_is_no_difference(tmp_path: Path) -> None:
    """`Only A was recorded with record_shapes=True`: of B, the keys behind the events were cut."""
    doc = g0()
    a = opened(tmp_path, doc.bytes(), "a")
    events = Doc(doc.events, header={}, tail=doc.header).bytes()
    b = opened(tmp_path, events[: events.index(b'"deviceProperties"')], "b")
    assert b.ledger.count("trace_truncated") == 1
    said = " ".join(circumstances(compare(a, b)))
    assert "The GPUs differ" not in said
    assert "Only A" not in said


def test_processes_number_their_backward_nodes_on_their_own(tmp_path: Path) -> None:
    """Two processes in one file: no backward kernel led to its forward op."""
    events = []
    for process in (100, 200):
        builder = TraceBuilder(pid=process, device=process // 200)
        builder.correlation = process
        builder.op("aten::mm", 10_000 * process, 9_000, args={"Sequence number": 5})
        node = {"Sequence number": 5, "Fwd thread id": 1}
        name = "autograd::engine::evaluate_function: MmBackward0"
        builder.op(name, 10_000 * process + 10_000, 9_000, args=node)
        builder.launch(10_000 * process + 11_000, 1_000)
        builder.kernel("sgemm", 10_000 * process + 13_000, 5_000)
        events += builder.events
    trace = opened(tmp_path, Doc(events).bytes())
    assert not trace.ledger.count("seq_duplicate")
    ops = AutogradNodes(trace).forward_ops()
    assert [trace.host.names[trace.host.name[op]] for op in ops] == ["aten::mm", "aten::mm"]
    assert len(set(ops.tolist())) == 2


def test_the_copy_of_a_damaged_trace_says_so(tmp_path: Path) -> None:
    """`share` made a sound trace of a cut one; events without a time were `not recorded`."""
    builder = one_kernel_elsewhere(steps([900_000] * 3, kernels=4))
    cut = builder.bytes()[:-200]
    trace = opened(tmp_path, cut)
    copy = shared(trace, tmp_path / "copy.json.gz")
    assert copy.ledger.count("copied_damage") == 2
    (note,) = (note for note in copy.ledger.notes if note.code == "copied_damage")
    assert note.text == "a copy of a damaged trace: trace_truncated, time_outlier"
    assert copy.ledger.lost_data
    assert copy.ledger.gap
    sound = shared(opened(tmp_path, g0().bytes(), "sound"), tmp_path / "sound.json.gz")
    assert not sound.ledger.count("copied_damage")
    claimed = opened(tmp_path, g0().head(foretraceDamage=["<b>", 7, {}]).bytes(), "claimed")
    assert not claimed.ledger.count("copied_damage")
