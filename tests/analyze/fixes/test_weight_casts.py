from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.rules.sketch import COPY, GEMM, Sketch, kernel

INPUT, WEIGHT = [512, 1024], [4096, 1024]


def layers(sketch: Sketch, cast: list[int], source: str = "float", backward: bool = False) -> None:
    for _ in range(6):
        types = ["c10::BFloat16", source]
        path = "aten::to > aten::_to_copy > aten::copy_"
        sketch.op(path, kernel(COPY, 5), us=30, dims=[cast, cast], types=types)
        sketch.op("aten::linear", kernel(GEMM, 8), us=40, dims=[INPUT, WEIGHT])
    if backward:
        sketch.op("autograd::engine::evaluate_function: AddmmBackward0", kernel(GEMM, 8))
        event = next(each for each in reversed(sketch.events) if each["cat"] == "cpu_op")
        event["args"] = {"Sequence number": 7, "Fwd thread id": 1}


def test_weights_are_converted_once(tmp_path: Path) -> None:
    (found,) = proposed("weight_casts", lambda made: layers(made, WEIGHT), tmp_path)
    assert found.order == "load the weights in 16 bit: model.to(torch.bfloat16)"
    assert found.why == "6 conversions of float32 weights per step"
    assert len(found.change.gone) == 6
    now, then = after_us("weight_casts", lambda made: layers(made, WEIGHT), tmp_path)
    assert now - then > 150


def test_inputs_copies_and_training_stay(tmp_path: Path) -> None:
    def trained(sketch: Sketch) -> None:
        layers(sketch, WEIGHT, backward=True)

    assert not proposed("weight_casts", lambda made: layers(made, INPUT), tmp_path)
    assert not proposed("weight_casts", lambda made: layers(made, WEIGHT, "c10::Half"), tmp_path)
    assert not proposed("weight_casts", trained, tmp_path)
