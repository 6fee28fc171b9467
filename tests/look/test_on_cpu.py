"""What a CPU computed: the op tree, what computes, what only changes metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foretrace as ft
from foretrace.look import summarize
from foretrace.look.measured_step import cpu_tree
from opened_traces import open_made

FUSED = "graph_0_cpp_fused__unsafe_view_gelu_mul_0"
LINEAR = [
    ("aten::linear", 10, 60),
    ("aten::t", 11, 4),
    ("aten::transpose", 12, 2),
    ("aten::addmm", 20, 40),
    ("aten::expand", 21, 2),
    ("aten::copy_", 25, 10),
    ("aten::reshape", 71, 8),
    ("aten::clone", 72, 6),
    ("aten::copy_", 73, 4),
]


def opened(tmp_path: Path, *calls: list[tuple[str, float, float]], **more: Any) -> ft.Trace:
    """Each call in a range of 100 us."""
    events = []
    for number, ops in enumerate(calls):
        begin = 1000 * number
        events.append(("user_annotation", "forward", begin, 100 + number))
        events += [("cpu_op", name, begin + ts, dur) for name, ts, dur in ops]
    rows = [
        {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1}
        for cat, name, ts, dur in events
    ]
    return open_made({"traceEvents": rows, **more}, tmp_path, "cpu")


def test_a_step_of_very_many_ops_is_a_cpus_too(tmp_path: Path) -> None:
    """ "GPU not named", "NO GPU TIME": such a step is slow for its many ops."""
    ops = [("aten::add", 0.004 * at, 0.003) for at in range(24_000)]
    tree = cpu_tree(opened(tmp_path, ops))
    assert [(row.name, row.count) for row in tree] == [("forward", 1), ("aten::add", 24_000)]


def cut_steps(count: int, left: float) -> bytes:
    """Steps of 100 us with ten ops; the file ends after `left` of them."""
    ops = [("cpu_op", "aten::mul", 10 * at, 8) for at in range(10)]
    events = [("user_annotation", "ProfilerStep#{}", 0, 99), *ops]
    rows = [
        {"ph": "X", "cat": cat, "name": name.format(step), "pid": 1, "tid": 1}
        | {"ts": 100 * step + ts, "dur": dur - 0.01 * step}
        for step in range(count)
        for cat, name, ts, dur in events
    ]
    kept = rows[: round(left * len(events))]
    return json.dumps({"schemaVersion": 1, "traceEvents": kept}).encode().removesuffix(b"]}")


def test_a_step_that_the_file_cuts_is_not_the_typical_one(tmp_path: Path) -> None:
    """Of three steps, the last had 18 of 118 ops that compute, the others 81 of 477."""
    path = tmp_path / "cut.json"
    for left, of_part in ((1.5, False), (2.5, False), (0.5, True)):
        path.write_bytes(cut_steps(3, left))
        ops = 5 if of_part else 10
        lines = "".join(summarize(ft.open(path)).sentences)
        assert f"{ops} of {ops} ops compute" in lines
        assert ("CPU TIME: a part of a step only: " in lines) is of_part


def test_a_fused_loop_is_named_and_a_missing_one_is_missed(tmp_path: Path) -> None:
    region = ("Torch-Compiled Region: 0/0", 5, 80)
    trace = opened(tmp_path, [region, ("aten::mm", 10, 20), (FUSED, 40, 30)])
    notes = {row.name: row.note for row in cpu_tree(trace)}
    assert notes[FUSED] == "one C++ loop for gelu, mul"
    assert "COMPILED" not in {line.label for line in summarize(trace).lines}
    lines = {
        line.label: line.text
        for line in summarize(opened(tmp_path, [region, ("aten::mm", 10, 20)])).lines
    }
    assert "at most 60.0 us of this call" in lines["COMPILED"]


def test_a_trace_that_hints_at_a_gpu_is_no_cpu_trace(tmp_path: Path) -> None:
    named = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
    assert cpu_tree(opened(tmp_path, LINEAR, **named)) == []
    assert cpu_tree(opened(tmp_path, [("aten::t", 1, 2)])) == []


def test_an_op_that_casts_its_input_computes_and_a_number_is_no_op(tmp_path: Path) -> None:
    """`x * 0.5` makes a tensor of the number and changes its type; `x * y` may cast a tensor."""
    scalar, tensor = [[], [], []], [[64], [64], []]
    rows = [("aten::mul", 0, scalar), ("aten::mul", 100, tensor)]
    events = [
        {
            "ph": "X", "cat": "cpu_op", "name": name, "ts": begin + at, "dur": 60 - 2 * at,
            "pid": 1, "tid": 1, "args": {"Input Dims": dims, "Input type": ["float", "int", ""]},
        }
        for _, begin, dims in rows
        for at, name in enumerate(("aten::mul", "aten::to", "aten::_to_copy", "aten::copy_"))
    ]  # fmt: skip
    tree = cpu_tree(open_made({"traceEvents": events}, tmp_path, "cast"))
    computing = [(row.name, row.count) for row in tree if row.does == "computes"]
    assert computing == [("aten::mul", 1), ("aten::mul", 1), ("aten::copy_", 1)]


def test_an_op_that_fills_or_copies_first_computes_itself(tmp_path: Path) -> None:
    """nn.LSTM, Conv2d and sum: "wrappers, allocations, Python 100%" of their time."""
    ops = [
        ("aten::lstm", 0, 30),
        ("aten::cudnn_is_acceptable", 1, 1),
        ("aten::mkldnn_rnn_layer", 3, 25),
        ("aten::add", 4, 2),
        ("aten::convolution", 30, 30),
        ("aten::mkldnn_convolution", 31, 28),
        ("aten::contiguous", 32, 6),
        ("aten::clone", 33, 4),
        ("aten::copy_", 34, 2),
        ("aten::sum", 60, 10),
        ("aten::fill_", 61, 1),
        ("aten::zeros", 70, 8),
        ("aten::zero_", 71, 6),
        ("aten::fill_", 72, 4),
    ]
    tree = cpu_tree(opened(tmp_path, ops))
    computing = [row.name.removeprefix("aten::") for row in tree if row.does == "computes"]
    kernels = ["mkldnn_rnn_layer", "add", "mkldnn_convolution", "copy_", "sum", "fill_", "fill_"]
    assert computing == kernels
