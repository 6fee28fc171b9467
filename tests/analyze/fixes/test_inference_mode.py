from __future__ import annotations

import pytest

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import ADD, COPY, GEMM, Sketch, kernel

SIZE = [1024, 1024]


def forward(sketch: Sketch, numbered: bool = True, backward: bool = False) -> None:
    for place in range(12):
        sketch.op("aten::mm", kernel(GEMM, 5), us=30, dims=[SIZE, SIZE])
        if numbered:
            event = next(each for each in reversed(sketch.events) if each["cat"] == "cpu_op")
            event["args"]["Sequence number"] = 100 * sketch.steps + place
    if backward:
        sketch.op("autograd::engine::evaluate_function: MmBackward0 > MmBackward0", kernel(GEMM, 5))
        for event in sketch.events[-4:]:
            if event["cat"] == "cpu_op":
                event["args"] = {"Sequence number": 100 * sketch.steps, "Fwd thread id": 1}


def test_nodes_that_no_backward_pass_uses(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(forward)
    assert found.order == "run inference under torch.no_grad() or inference_mode()"
    assert found.why == "12 ops per step make autograd nodes, and no backward pass follows"
    assert now - then == pytest.approx(60, rel=0.5)  # 5 us for each


def test_training_and_inference_without_nodes_stay(fix: FixUnderTest) -> None:
    def trained(sketch: Sketch) -> None:
        forward(sketch, backward=True)

    fix.stays(trained, lambda made: forward(made, numbered=False))


def test_dropout_is_off_in_eval(fix: FixUnderTest) -> None:
    def dropped(sketch: Sketch, *work: dict[str, object]) -> None:
        forward(sketch, numbered=False)
        sketch.op("aten::sdpa > aten::dropout > aten::native_dropout", *work, dims=[SIZE])

    (found,) = fix.proposals(lambda made: dropped(made, kernel(ADD, 9)))
    assert found.order == "call model.eval(): dropout is on"
    assert len(found.change.gone) == 1
    ((start, end),) = found.change.removed
    assert end - start < 10_000, "what calls dropout stays"
    fix.stays(dropped)


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


def test_weights_are_converted_once(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(lambda made: layers(made, WEIGHT))
    assert found.order == "load the weights in 16 bit: model.to(torch.bfloat16)"
    assert found.why == "6 conversions of float32 weights per step"
    assert len(found.change.gone) == 6
    assert now - then > 150


def test_inputs_copies_and_training_stay(fix: FixUnderTest) -> None:
    def trained(sketch: Sketch) -> None:
        layers(sketch, WEIGHT, backward=True)

    fix.stays(
        lambda made: layers(made, INPUT), lambda made: layers(made, WEIGHT, "c10::Half"), trained
    )
