from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GELU, GEMM, Sketch, kernel

SLICE, WHOLE, WEIGHT = [128, 512], [16, 128, 512], [512, 512]


def samples(sketch: Sketch, advancing: bool = True, joined: bool = True) -> None:
    for at in range(16):
        index = ["", "0", str(at if advancing else 0)]
        sketch.op("aten::select", us=4, dims=[WHOLE, [], []], concrete=index)
        sketch.op("aten::mm", kernel(GEMM, 8), us=40, dims=[SLICE, WEIGHT])
        sketch.op("aten::gelu", kernel(GELU, 3), us=20, dims=[SLICE])
    sketch.op("aten::stack" if joined else "aten::neg", kernel(GELU, 9), us=30, dims=[WHOLE])


def cells(sketch: Sketch) -> None:
    parts = " > ".join(["aten::unbind"])
    first = len(sketch.events)
    sketch.op(parts, us=60, dims=[[16, 32, 256], []])
    for at in range(16):
        sketch.events.append(
            sketch.events[first]
            | {"name": "aten::select", "ts": sketch.now - 55 + 3 * at, "dur": 2, "args": {}}
        )
    for _ in range(16):
        product, cell = kernel(GEMM, 5), kernel("void gru_cell_forward<float>(int)", 3)
        sketch.op("aten::gru_cell > aten::mm", product, us=60, dims=[[32, 256], [256, 768]])
        sketch.op("aten::gru_cell > aten::_thnn_fused_gru_cell", cell, us=60, dims=[[32, 768]])
    sketch.op("aten::stack", kernel(GELU, 9), dims=[[]])


def test_slices_become_a_batch(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(samples)
    assert found.order == "run all slices in one call, along a batch dimension"
    assert found.why == "the same 3 ops run 16 times per step, on one slice each"
    assert len(found.change.gone) == 2 * 15 + 1
    assert now > 1_000
    assert 50 < then < 110


def test_cells_become_a_module(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(cells)
    assert found.order == "replace the loop of cells by one nn.GRU"


def test_layers_stay(fix: FixUnderTest) -> None:
    fix.stays(
        lambda sketch: samples(sketch, advancing=False),
        lambda sketch: samples(sketch, joined=False),
    )


def test_a_cell_that_is_written_out_becomes_a_module(fix: FixUnderTest) -> None:
    def written(sketch: Sketch, gates: str = "sigmoid tanh mul tanh") -> None:
        for at in range(16):
            sketch.op("aten::select", us=4, dims=[WHOLE, [], []], concrete=["", "0", str(at)])
            for name in ("matmul", "matmul", *gates.split()):
                sketch.op(f"aten::{name}", kernel(GELU, 3), us=20, dims=[SLICE, SLICE])
        sketch.op("aten::stack", kernel(GELU, 9), us=30, dims=[WHOLE])

    (found,) = fix.proposals(written)
    assert found.order == "replace the loop of cells by one nn.LSTM"
    (found,) = fix.proposals(lambda made: written(made, "sigmoid tanh"))
    assert found.order == "replace the loop of cells by one nn.GRU"
    (found,) = fix.proposals(lambda made: written(made, "tanh mul"))
    assert found.order == "run all slices in one call, along a batch dimension"
