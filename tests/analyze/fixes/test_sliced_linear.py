"""A linear layer of whose result one position is read, and layers that are read in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest, times_us
from analyze.fixes.test_on_cpu import found
from analyze.rules.sketch import ADD, GEMM, Sketch, kernel

MADE = [8, 96, 16_000]
LAST = ("aten::select", ["", "1", "-1"])
WHOLE = ("aten::slice", ["", "0", "0", "9223372036854775807", "1"])
WHY = "linear to 16000 features at 96 positions, of which the step reads 1"


def _head(*reads: tuple[str, list[str]], on_gpu: bool = True) -> Draw:
    def draw(sketch: Sketch) -> None:
        work, works = ([kernel(GEMM, 960)], [kernel(ADD, 5)]) if on_gpu else ([], [])
        dims, kinds = [[8, 96, 128], [16_000, 128], []], ["float", "float", ""]
        sketch.op("aten::linear", *work, us=9_600, dims=dims, types=kinds)
        for name, concrete in reads:
            dims = [MADE, *([] for _ in concrete[1:])]
            kinds = ["float", *("Scalar" for _ in concrete[1:])]
            sketch.op(name, us=10, dims=dims, types=kinds, concrete=concrete)
        sketch.op("aten::softmax", *works, us=100, dims=[[8, 16_000]], types=["float"])

    return draw


@pytest.mark.parametrize("reads", [(LAST,), (WHOLE, LAST)])
def test_one_position_is_read(reads: tuple[tuple[str, list[str]], ...], fix: FixUnderTest) -> None:
    (proposal,) = fix.once(_head(*reads))
    assert proposal.order == "slice before the linear layer, as in head(x[:, -1:])"
    assert proposal.why == WHY
    assert times_us(proposal) == [10.0]


@pytest.mark.parametrize(
    "reads",
    [
        (),
        (WHOLE,),
        (LAST, ("aten::argmax", ["", "-1"])),
        (LAST, ("aten::view", ["", "[768, 16000]"])),
        (LAST, ("aten::select", ["", "0", "0"])),
        (("aten::select", ["", "2", "0"]),),
        (("aten::slice", ["", "1", "0", "-1", "1"]),),
    ],
)
def test_a_result_that_is_read_stays(
    reads: tuple[tuple[str, list[str]], ...], fix: FixUnderTest
) -> None:
    assert not fix.once(_head(*reads))


def test_a_cpu_computes_one_position(tmp_path: Path) -> None:
    (fixed,) = found(_head(LAST, on_gpu=False), tmp_path)
    assert fixed.proposal.why == WHY
    assert fixed.ns == pytest.approx(9_600_000 / 96 + 110_000, rel=0.1)
