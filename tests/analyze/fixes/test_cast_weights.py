from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.rules.sketch import COPY, GEMM, Sketch, kernel
from foretrace.model.autograd import ENGINE

INPUT, WEIGHT = [256, 4096], [1024, 4096]
TYPES = ["c10::BFloat16", "float"]


def layer(sketch: Sketch, cast: list[int]) -> None:
    path = "aten::to > aten::_to_copy > aten::copy_"
    sketch.op(path, kernel(COPY, 20), dims=[cast, cast], types=TYPES)
    sketch.op("aten::linear", kernel(GEMM, 20), dims=[INPUT, WEIGHT])


def inference(sketch: Sketch) -> None:
    layer(sketch, WEIGHT)


def training(sketch: Sketch) -> None:
    inference(sketch)
    sketch.op(ENGINE + "AddmmBackward0", kernel(GEMM, 20))


def test_weights_are_cast_once(tmp_path: Path) -> None:
    (found,) = proposed("cast_weights", inference, tmp_path)
    assert found.order == "store the weights in 16 bits (model.to(torch.bfloat16))"
    now, then = after_us("cast_weights", inference, tmp_path)
    assert then < now - 15


def test_inputs_and_training_keep_their_casts(tmp_path: Path) -> None:
    assert proposed("cast_weights", lambda sketch: layer(sketch, INPUT), tmp_path) == []
    assert proposed("cast_weights", training, tmp_path) == []
