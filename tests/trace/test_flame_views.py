"""The four flame graphs: their boxes add up to what `look` says of modules and ops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from corpus.places import recorded_traces
from foretrace.trace.flame import RAN, FlameViews
from foretrace.trace.trace import Trace
from opened_traces import open_made, opened, overview

MODULES = Path(__file__).parents[1] / "recorded" / "llama_train_modules.json.gz"
Path_ = tuple[str, ...]


@pytest.fixture(scope="module")
def training() -> Trace:
    return opened(MODULES)


def sums(trace: Trace, time: str, by: str) -> Counter[tuple[Path_, str]]:
    """The time of each box with all that is inside, by pass."""
    stacked = FlameViews(trace).of(time, by)
    found: Counter[tuple[Path_, str]] = Counter()
    for row, (ns, ran) in enumerate(zip(stacked.ns.tolist(), stacked.ran.tolist(), strict=True)):
        names = tuple(name for _, name in stacked.frames(row))
        for depth in range(len(names) + 1):
            found[names[:depth], RAN[ran]] += ns
    return found


def whole(found: Counter[tuple[Path_, str]]) -> Counter[Path_]:
    total: Counter[Path_] = Counter()
    for (path, _), ns in found.items():
        total[path] += ns
    return total


def by_name(found: Counter[tuple[Path_, str]]) -> Counter[str]:
    """A call right inside one of its own name counts once."""
    names: Counter[str] = Counter()
    for path, ns in whole(found).items():
        if path and path[-1:] != path[-2:-1]:
            names[path[-1]] += ns
    return names


def test_modules_have_the_gpu_time_of_their_rows(training: Trace) -> None:
    found = sums(training, "gpu", "module")
    assert whole(found)[()] == int(training.gpu.length.sum())
    for row in training.modules.rows:
        path = (*row.path, row.name)
        assert whole(found)[path] == row.total_ns, path
        if row.kind:
            assert found[path, "backward"] == row.backward_ns
            assert found[path, "forward"] == row.forward_ns
    assert found[("optimizer",), "optimizer"] == 897_728


@pytest.mark.parametrize("path", [MODULES, *recorded_traces()[::7]], ids=lambda path: path.name)
def test_ops_have_the_times_that_look_says(path: Path) -> None:
    trace = opened(path)
    on_gpu, on_host = by_name(sums(trace, "gpu", "op")), by_name(sums(trace, "host", "op"))
    for row in overview(path).look.ops:
        assert on_gpu[row.name] == row.gpu_ns, row.name
        assert on_host[row.name] == row.total_cpu_ns, row.name


def test_modules_have_the_host_time_of_their_calls(training: Trace) -> None:
    found, host, modules = sums(training, "host", "module"), training.host, training.module_calls
    calls: Counter[Path_] = Counter()
    for event in np.flatnonzero(modules.is_module).tolist():
        calls[modules.path(event)] += int(host.length[event])
    for path, ns in calls.items():
        assert found[path, "forward"] == ns, path


def test_ops_around_a_module_are_not_inside_it(tmp_path: Path) -> None:
    built = TraceBuilder().op("DistributedDataParallel.forward", 0, 9_000)
    built.host("python_function", "nn.Module: Net_0", 100, 8_000)
    built.op("aten::linear", 1_000, 2_000).op("aten::mm", 1_100, 1_500)
    built.launch(1_200, 10).kernel("gemm", 20_000, 70)
    built.op("aten::add", 10_000, 100)
    trace = open_made(built, tmp_path)
    inside = ("Net_0", "aten::linear", "aten::mm")
    assert whole(sums(trace, "gpu", "module"))[(*inside, "gemm")] == 70
    host = whole(sums(trace, "host", "module"))
    assert host[("Net_0",)] == 8_000
    assert host[inside] == 1_500
    assert host[("outside modules", "DistributedDataParallel.forward")] == 1_000
    assert host[("outside modules", "aten::add")] == 100


def test_the_innermost_frame_that_is_not_torchs(tmp_path: Path) -> None:
    builder = TraceBuilder().frame("train.py(12): main", 0, 90_000)
    builder.frame("model.py(63): forward", 1_000, 80_000)
    builder.frame("torch/nn/modules/linear.py(125): forward", 2_000, 70_000)
    builder.frame("<built-in function linear>", 3_000, 60_000)
    builder.op("aten::mm", 4_000, 10_000).launch(5_000, 500).kernel("sgemm", 7_000, 1_000)
    (row,) = ft.look(open_made(builder, tmp_path)).kernels
    assert row.source == "model.py:63"
