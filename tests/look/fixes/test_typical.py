"""What the predictions of one step depend on besides its ops: other steps, the card, the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import foretrace as ft
from foretrace.look.fixes import FixPrediction, predicted, predicted_on_cpu
from foretrace.read import recordings
from look.fixes.test_sketches import linear, small_matmuls, stepping
from look.rules.sketch import GEMM, Sketch, kernel
from opened_traces import open_made


def proposed(sketch: Sketch, folder: Path) -> dict[str, FixPrediction]:
    found = predicted(open_made(sketch, folder))
    assert found is not None
    return {each.fix: each for each in found.every}


def on_cpu(sketch: Sketch, folder: Path, record: dict[str, Any]) -> list[str]:
    document = sketch.document()
    del document["deviceProperties"]
    (folder / "trace.json").write_text(json.dumps(document))
    (folder / "trace.run.json").write_text(json.dumps({"kind": "foretrace-run"} | record))
    found = predicted_on_cpu(ft.open(folder / "trace.json", cache=False))
    assert found is not None
    return [each.proposal.order for each in found.fixes]


def test_a_graph_needs_shapes_that_stay(tmp_path: Path) -> None:
    """AdamW's foreach ops have another step size in each step: a number, and no shape."""

    def obstacle(rows: int, number: str) -> str:
        sketch = Sketch()
        for first, value in ((64, "0.1"), (rows, number)):
            small_matmuls(sketch.step())
            sketch.op("aten::mul", kernel(GEMM, 2), dims=[[first, 64], []], concrete=["", value])
        return proposed(sketch, tmp_path)["cuda_graph"].proposal.first

    assert obstacle(64, "0.2") == ""
    assert obstacle(32, "0.1") == "shapes that differ between steps"


def test_a_call_that_ran_once_outside_of_a_step_is_no_work_for_a_graph(tmp_path: Path) -> None:
    sketch = Sketch()
    small_matmuls(sketch)
    assert "cuda_graph" not in proposed(sketch, tmp_path)


def test_an_engine_keeps_its_attention_out_of_the_graph(tmp_path: Path) -> None:
    sketch = Sketch().region("execute_context_1(888_788544)_generation_0(0)").pause(100)
    for _ in range(3):
        sketch.op("vllm::unified_attention_with_output", kernel(GEMM, 2), us=100)
        small_matmuls(sketch)
    graph = proposed(sketch, tmp_path)["cuda_graph"].proposal
    assert graph.order == "CUDA graph in the engine (no enforce_eager, sizes up to 888)"
    assert [end - start for start, end in graph.change.removed] == [1_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("device", "name", "orders"),
    [
        ("Tesla V100-SXM2-32GB", "volta_sgemm_128x64_tn", ["run the model in float16 (model.half())"]),
        ("NVIDIA H200", "volta_sgemm_128x64_tn", []),
        ("Tesla V100-SXM2-32GB", "volta_h884gemm_128x64_tn", []),
    ],
)  # fmt: skip
def test_float16_where_tensor_cores_take_nothing_else(
    device: str, name: str, orders: list[str], tmp_path: Path
) -> None:
    sketch = Sketch(device, (7, 0), 80).step().op("aten::mm", kernel(name, 200))
    found = proposed(sketch, tmp_path)
    assert [each.proposal.order for fix, each in found.items() if fix == "float16"] == orders


def test_a_run_record_knows_the_threads(tmp_path: Path) -> None:
    four = {"machine": {"cpus": 16}, "settings": {"threads": 4}}
    step = stepping(linear)
    assert on_cpu(step, tmp_path, four) == ["torch.set_num_threads(16)"]
    assert on_cpu(step, tmp_path, four | {"settings": {"threads": 16}}) == []
    # Other programs used the cores: two threads took 88 ms, one 14.
    assert on_cpu(step, tmp_path, four | {"timing": {"preempted_per_s": 120.0}}) == []


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
    step = stepping(lambda s: linear(s.host("user_annotation", name, us), 200))
    record = {"machine": {"cpus": cores}, "settings": {"threads": cores}}
    assert on_cpu(step, tmp_path, record) == orders


def test_a_loop_over_parameters_takes_what_the_recorded_fused_step_takes() -> None:
    shape = "4x512x4x768x12x3072x32000_bf16"
    now = predicted(ft.open(recordings.ladder()[f"train_step_forloop_{shape}"]))
    assert now is not None
    (found,) = [each for each in now.fixes if each.fix == "fused_optimizer"]
    assert found.ns / now.now_ns == pytest.approx(8.18 / 11.8, rel=0.1)  # their run records
