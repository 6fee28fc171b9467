"""What a CPU computed: the op tree, what computes, what only changes metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.schema.documents.look import SCHEMA, LookSet
from foretrace.show.overview import look_region, summarize
from foretrace.show.overview.on_cpu import cpu_groups, cpu_tree
from foretrace.show.render import set_page
from foretrace.show.render.look_page import first_screen, region_page, sections
from foretrace.show.render.terminal import drawn
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
        lines = "".join(ft.look(path).sentences)
        assert f"{ops} of {ops} ops compute" in lines
        assert ("CPU TIME: a part of a step only: " in lines) is of_part


def test_a_cut_behind_the_last_event_leaves_the_step_whole(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(cut_steps(1, 1) + b', {"ph": "M", "name": "process_name", "pid": 1}')
    assert "a part of" not in ft.look(path).verdict.text


def test_the_tree_adds_up_and_marks_what_each_op_does(tmp_path: Path) -> None:
    tree = cpu_tree(opened(tmp_path, LINEAR))
    shown = [(row.depth, row.name, row.self_ns, row.does) for row in tree]
    assert shown == [
        (0, "forward", 32_000, ""),
        (1, "aten::linear", 16_000, ""),
        (2, "aten::t", 2_000, "metadata only"),
        (3, "aten::transpose", 2_000, "metadata only"),
        (2, "aten::addmm", 28_000, "computes"),
        (3, "aten::expand", 2_000, "metadata only"),
        (3, "aten::copy_", 10_000, "computes"),
        (1, "aten::reshape", 2_000, ""),  # it copies: no view
        (2, "aten::clone", 2_000, ""),
        (3, "aten::copy_", 4_000, "computes"),
    ]
    assert sum(row.self_ns for row in tree) == tree[0].total_ns == 100_000
    groups = cpu_groups(tree)
    assert sum(row.time_ns for row in groups) == 100_000
    assert [(row.name, row.limited_by) for row in groups if row.name == "aten::copy_"] == [
        ("aten::copy_", "bias of aten::addmm"),
        ("aten::copy_", ""),
    ]


def test_the_first_screen_says_what_computes_and_explains_the_copy(tmp_path: Path) -> None:
    overview = summarize(opened(tmp_path, LINEAR, LINEAR, LINEAR))
    text = " ".join(drawn(first_screen(overview)).split())
    assert "cpu · CPU ·" in text
    assert "3 of 9 ops compute, 42.0 us of 101 us (41.6%) in forward" in text
    assert "3 only change metadata (6.00 us)" in text
    assert "aten::addmm copies its bias into the output before the matmul adds to it" in text
    assert "1 copy, 10.0 us of its 40.0 us" in text
    ops = {row.name: row.metadata_only for row in overview.look.ops}
    assert (ops["aten::t"], ops["aten::reshape"], ops["aten::addmm"]) == (True, False, False)
    page = drawn(sections(overview, ["ops"], 20))
    assert "kernels" not in page
    assert "Op tree of forward" in page


def test_a_page_of_a_cpu_has_no_column_of_a_gpu(tmp_path: Path) -> None:
    """Was "0 kernels, 0 memcpys … GPU busy –", "needs GPU events: record with … CUDA"."""
    built = TraceBuilder(header={"deviceProperties": []})
    built.step(3, 0, 100_000).region("load", 0, 20_000)
    built.op("aten::linear", 30_000, 60_000).op("aten::addmm", 31_000, 50_000)
    path = tmp_path / "cpu.json"
    path.write_bytes(built.bytes())
    timing = {"kind": "foretrace-run", "timing": {"wall_ns_per_call": 80_000}}
    (tmp_path / "cpu.run.json").write_text(json.dumps(timing))
    overview = summarize(ft.open(path, cache=False))
    pages = [*first_screen(overview), *sections(overview, ["steps", "findings"], 20)]
    text = " ".join(drawn(pages).split())
    assert "CPU TIME 80.0 us per step without the profiler, 100 us with it; 2 host ops" in text
    assert "outside of ops (Python) 40.0 us 40%" in text
    assert "ProfilerStep#3 100 us 2 60.0 us" in text
    assert "load 1 20.0 us 20.0%" in text
    assert "rules about GPU work had nothing to check" in text
    assert not {"kernels", "gpu", "CUDA"} & set(text.replace("/", " ").split())
    found = LookSet(SCHEMA, [overview.look], [], [])
    (table, _) = set_page.first_screen(str(tmp_path), found)
    assert table.title.endswith("CPU")
    assert table.rows == [["cpu", "100 us", "2", "aten::addmm", "–"]]


def test_equal_parts_are_one_row(tmp_path: Path) -> None:
    twice = [*LINEAR[:2], ("aten::linear", 75, 20), ("aten::t", 76, 4)]
    tree = cpu_tree(opened(tmp_path, [*twice, ("aten::relu", 96, 2)]))
    assert [(row.name, row.count) for row in tree[1:]] == [
        ("aten::linear", 2),
        ("aten::t", 2),
        ("aten::relu", 1),
    ]


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


def test_a_region_shows_its_own_tree(tmp_path: Path) -> None:
    text = drawn(region_page(look_region(opened(tmp_path, LINEAR), "forward"), 20))
    assert "it launched nothing" not in text
    assert "aten::transpose" in text


def test_a_recording_without_steps_is_no_call(tmp_path: Path) -> None:
    """binary_cross_entropy computes, though it calls a mean: "wrappers and allocations 44%"."""
    built = TraceBuilder(header={"deviceProperties": []})
    built.op("aten::binary_cross_entropy", 0, 50_000).op("aten::mean", 40_000, 5_000)
    overview = summarize(open_made(built, tmp_path, "bce"))
    text = drawn([*first_screen(overview), *sections(overview, ["ops"], 20)])
    assert "CPU, whole recording" in text
    assert "Op tree of the whole recording\n" in text
    assert "wrappers" not in text
    assert "2 of 2 ops compute" in text


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


def test_an_op_that_is_busy_itself_computes(tmp_path: Path) -> None:
    """The backward pass of a convolution calls `aten::sum` for the bias; a wrapper only waits."""
    ops = [
        ("aten::convolution_backward", 0, 99),
        ("aten::_slow_conv2d_backward", 1, 97),
        ("aten::sum", 80, 9),
    ]
    tree = cpu_tree(opened(tmp_path, ops))
    computing = [(row.name, row.self_ns) for row in tree if row.does == "computes"]
    assert computing == [("aten::_slow_conv2d_backward", 88_000), ("aten::sum", 9_000)]


def test_the_time_of_the_data_loader_has_a_row(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    rows = [
        {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1}
        for cat, name, ts, dur in (
            ("user_annotation", "ProfilerStep#1", 0, 100),
            ("user_annotation", loader, 1, 40),
            ("cpu_op", "aten::stack", 5, 10),
            ("cpu_op", "aten::cat", 6, 8),
            ("cpu_op", "aten::mm", 50, 40),
        )
    ]
    trace = open_made({"traceEvents": rows}, tmp_path, "loader")
    groups = {row.name: row.time_ns for row in cpu_groups(cpu_tree(trace))}
    assert groups["in the DataLoader"] == 30_000
    assert "2 of 3 ops compute" in drawn(first_screen(summarize(trace)))
