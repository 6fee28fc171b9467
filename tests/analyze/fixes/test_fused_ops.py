from __future__ import annotations

from collections.abc import Callable

import pytest

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import ADD, Sketch, kernel

FULL, SMALL, WEIGHT = [8192, 1024], [8192, 1], [1024]
Draw = Callable[[Sketch], None]


def drawn(words: str) -> Draw:
    """Ops written as in the table: `mul:s` takes a smaller tensor too, `mul~` only that."""

    def draw(sketch: Sketch) -> None:
        sketch.op("aten::mm", kernel("gemm", 50), dims=[FULL, [1024, 1024]])
        for word in words.split():
            name, _, kind = word.replace("~", ":~").partition(":")
            dims = {"s": [FULL, SMALL], "f": [FULL, FULL], "~": [SMALL], "": [FULL]}[kind]
            sketch.op(f"aten::{name}", kernel(ADD, 2 if kind == "~" else 20), dims=dims)
        sketch.op("aten::mm", kernel("gemm", 50), dims=[FULL, [1024, 1024]])

    return draw


@pytest.mark.parametrize(
    ("words", "order"),
    [
        (
            "mean sub:s pow mean sub:s mul:s add~ sqrt~ div:s add:s",
            "call F.layer_norm/batch_norm instead of 10 ops",
        ),
        (
            "mean var sub:s add~ rsqrt~ mul:s mul:s add:s",
            "call F.layer_norm/batch_norm instead of 8 ops",
        ),
        ("mean std sub:s add~ div:s", "call F.layer_norm/batch_norm instead of 5 ops"),
        ("to pow mean add~ rsqrt~ mul:s to mul:s", "call F.rms_norm instead of 8 ops"),
        ("mul:f mean add~ sqrt~ div:s mul:s", "call F.rms_norm instead of 6 ops"),
        (
            "mul pow mul add:f mul tanh add mul:f",
            'call F.gelu(approximate="tanh") instead of 8 ops',
        ),
        ("mul div erf add mul:f", "call F.gelu instead of 5 ops"),
        ("amax sub:s exp sum div:s", "call torch.softmax instead of 5 ops"),
        ("to softmax log", "call F.log_softmax instead of 2 ops"),
        ("rand_like lt mul:f div", "call F.dropout instead of 4 ops"),
        ("square sum sqrt~ clamp~ div:s", "call F.normalize instead of 5 ops"),
    ],
)
def test_a_sequence_becomes_one_op(words: str, order: str, fix: FixUnderTest) -> None:
    found, now, then = fix.goes(drawn(words))
    assert found.order == order
    assert found.why.endswith("written out once per step")
    assert len(found.change.length) == 1
    assert then < now


@pytest.mark.parametrize(
    "words",
    [
        "mean sub:s pow mean",  # a variance that nothing is divided by
        "pow mean sqrt~ add:f",  # no scale behind the root
        "pow mean add~ rsqrt~ mul",  # a scalar, no tensor of roots
        "mul tanh mul:f add:f",
        "sigmoid mul:f",  # a gate, or SiLU: the trace does not show which
        "layer_norm gelu softmax",
        "exp sum mul:s",
    ],
)
def test_other_ops_stay(words: str, fix: FixUnderTest) -> None:
    fix.stays(drawn(words))


def test_a_residual_is_no_bias(fix: FixUnderTest) -> None:
    words = "mean var sub:s add~ rsqrt~ mul:s mul:s"
    (found,) = fix.proposals(drawn(f"{words} add:f"))
    assert found.order == "call F.layer_norm/batch_norm instead of 7 ops"


def test_what_an_op_calls_is_its_own(fix: FixUnderTest) -> None:
    def inside(sketch: Sketch) -> None:
        work = [kernel(ADD, 20) for _ in range(6)]
        sketch.op("aten::rms_norm > aten::mul", *work, dims=[FULL, WEIGHT])

    fix.stays(inside)
