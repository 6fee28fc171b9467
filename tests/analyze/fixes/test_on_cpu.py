"""What shortens a step of a CPU, on made-up steps: each cause, and steps without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from analyze.rules.sketch import Sketch
from foretrace.analyze.fixes import FixPrediction
from foretrace.analyze.fixes._cpu import predicted_on_cpu
from foretrace.model.trace import Trace
from foretrace.read import recordings

Build = Callable[[Sketch], object]
ROW = ["float", "float", "float"]


def opened(build: Build, folder: Path, record: Any = None) -> Trace:
    sketch = Sketch()
    for _ in range(3):
        build(sketch.step())
    document = sketch.document()
    del document["deviceProperties"]
    (folder / "trace.json").write_text(json.dumps(document))
    if record:
        (folder / "trace.run.json").write_text(json.dumps(record))
    return ft.open(folder / "trace.json", cache=False)


def found(build: Build, folder: Path, record: Any = None) -> list[FixPrediction]:
    said = predicted_on_cpu(opened(build, folder, record))
    assert said is not None
    return said.fixes


def matmul(sketch: Sketch, kind: str = "float", us: float = 4_000) -> None:
    dims = [[512], [512, 512], [512, 512]]
    sketch.op("aten::linear > aten::addmm", us=us, dims=dims, types=[kind] * 3)


def convolution(sketch: Sketch, strides: list[int]) -> None:
    dims = [[8, 64, 32, 32], [64, 64, 3, 3]]
    held = [strides, [576, 9, 3, 1]]
    types = ["float", "float"]
    sketch.op("aten::mkldnn_convolution", us=5_000, dims=dims, types=types, strides=held)


def samples(sketch: Sketch, rows: int = 1) -> None:
    for _ in range(64):
        sketch.op("aten::addmm", us=10, dims=[[10], [rows, 64], [64, 10]], types=ROW)
    sketch.op("aten::stack", us=20)


def test_one_core_at_work_asks_for_threads(tmp_path: Path) -> None:
    (fix,) = found(matmul, tmp_path)
    assert "torch.set_num_threads" in fix.proposal.order
    assert found(lambda sketch: matmul(sketch, us=200), tmp_path) == []  # ten cores' rate


def test_a_run_record_knows_the_threads(tmp_path: Path) -> None:
    record = {"kind": "foretrace-run", "machine": {"cpus": 16}, "settings": {"threads": 4}}
    (fix,) = found(matmul, tmp_path, record)
    assert (fix.proposal.order, fix.proposal.why) == (
        "torch.set_num_threads(16)",
        "4 threads on a machine of 16 cores",
    )
    assert found(matmul, tmp_path, record | {"settings": {"threads": 16}}) == []
    # Other programs used the cores, or a loader's workers did: two threads took 88 ms, one 14.
    assert found(matmul, tmp_path, record | {"timing": {"preempted_per_s": 120.0}}) == []

    def loaded(sketch: Sketch) -> None:
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        matmul(sketch.host("user_annotation", name, 100))

    assert found(loaded, tmp_path, record) == []


def test_float64_takes_twice_the_time(tmp_path: Path) -> None:
    fixes = found(lambda sketch: matmul(sketch, "double"), tmp_path)
    assert [fix.proposal.order for fix in fixes] == [
        "compute in float32 (model.float(), x.float())"
    ]
    assert fixes[0].low_ns < fixes[0].ns < fixes[0].high_ns


def test_convolutions_in_nchw(tmp_path: Path) -> None:
    (fix,) = found(lambda sketch: convolution(sketch, [65_536, 1024, 32, 1]), tmp_path)
    assert "channels_last" in fix.proposal.order
    assert found(lambda sketch: convolution(sketch, [65_536, 1, 2048, 64]), tmp_path) == []

    def training(sketch: Sketch) -> None:
        convolution(sketch, [65_536, 1024, 32, 1])
        sketch.op("aten::convolution_backward", us=9_000)

    assert found(training, tmp_path) == []  # 0.9 to 1.9 times as long in channels_last


def test_samples_one_by_one(tmp_path: Path) -> None:
    said = predicted_on_cpu(opened(samples, tmp_path))
    assert said is not None
    assert said.fixes[0].proposal.order == "run the samples as one batch (torch.stack)"
    assert said.fixes[0].ns < 0.2 * said.now_ns
    assert found(lambda sketch: samples(sketch, rows=32), tmp_path) == []


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("_SingleProcessDataLoaderIter", "DataLoader(num_workers=4)"),
        ("_MultiProcessingDataLoaderIter", "more DataLoader workers"),
    ],
)
def test_a_step_that_waits_for_its_batch(name: str, order: str, tmp_path: Path) -> None:
    def loading(sketch: Sketch) -> None:
        sketch.host("user_annotation", f"enumerate(DataLoader)#{name}.__next__", 3_000)
        matmul(sketch, us=200)

    assert [fix.proposal.order for fix in found(loading, tmp_path)] == [order]


@pytest.mark.parametrize(
    ("us", "cores", "orders"),
    [
        (1_900, 8, []),  # a worker's batch takes as long to fetch
        (3_000, 2, ["DataLoader(num_workers=2)"]),  # PyTorch warns of more workers than cores
        (3_000, 16, ["DataLoader(num_workers=4)"]),
        (3_000, 1, []),
    ],
)
def test_workers_need_cores(us: int, cores: int, orders: list[str], tmp_path: Path) -> None:
    """A batch of 0.7 ms on two cores: "DO FIRST DataLoader(num_workers=4)" doubled the step."""
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

    def loading(sketch: Sketch) -> None:
        matmul(sketch.host("user_annotation", name, us), us=200)

    record = {"kind": "foretrace-run", "machine": {"cpus": cores}, "settings": {"threads": cores}}
    assert [fix.proposal.order for fix in found(loading, tmp_path, record)] == orders


def test_cells_in_a_loop(tmp_path: Path) -> None:
    def cells(sketch: Sketch) -> None:
        for _ in range(16):
            sketch.op("aten::gru_cell > aten::mm", us=100, dims=[[8, 64], [64, 64]], types=ROW[:2])

    assert [fix.proposal.order for fix in found(cells, tmp_path)] == [
        "run the whole sequence at once (nn.GRU)"
    ]


def test_a_gpu_is_another_matter() -> None:
    assert predicted_on_cpu(ft.open(recordings.traces()["linear_eager"])) is None


def test_anomaly_detection_on_a_cpu(tmp_path: Path) -> None:
    engine = "autograd::engine::evaluate_function: MulBackward0"

    def step(sketch: Sketch, around: str = engine) -> None:
        for _ in range(5):
            sketch.op(f"{around} > aten::isnan > aten::ne", us=1_000)
            sketch.op(f"{around} > aten::_is_any_true > aten::any", us=500)
        sketch.op("aten::_softmax", us=2_000, dims=[[64, 10]], types=["float"])

    (fix,) = found(step, tmp_path)
    assert (fix.proposal.order, fix.proposal.why) == (
        "remove torch.autograd.detect_anomaly()",
        "5 checks for NaN per step in the backward pass",
    )
    assert fix.ns == pytest.approx(2_000_000, rel=0.01)
    assert found(lambda sketch: step(sketch, "my::op"), tmp_path) == []
