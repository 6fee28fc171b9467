from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.fixes.waiting import DOWN, waits
from analyze.rules.sketch import ADD, Sketch, kernel

NODE = "autograd::engine::evaluate_function: MulBackward0"


def backward(sketch: Sketch, around: str = NODE) -> None:
    for _ in range(5):
        first = len(sketch.events)
        sketch.op(f"{around} > MulBackward0 > aten::mul", kernel(ADD, 10), us=30)
        inner = len(sketch.events)
        sketch.op("aten::isnan > aten::ne", kernel(ADD, 5))
        sketch.op("aten::_is_any_true > aten::any", kernel(ADD, 5))
        waits(sketch, "aten::item > aten::_local_scalar_dense", DOWN)
        sketch.events[first]["dur"] = round(sketch.now - sketch.events[first]["ts"] + 1, 3)
        sketch.pause(2)
        assert sketch.events[inner]["name"] == "aten::isnan"


def test_checks_for_nan_go(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(backward)
    assert found.why == "5 checks for NaN in the backward pass, 5 waits per step"
    assert now > 300
    assert then < 200


def test_checks_of_the_program_stay(fix: FixUnderTest) -> None:
    fix.stays(lambda sketch: backward(sketch, "my::op"))
