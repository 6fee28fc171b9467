"""Matmuls in TF32, in plain float32, and in bf16."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest, times_us
from analyze.rules.sketch import GEMM, kernel

TF32 = (
    "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x256x32_warpgroupsize2x1x1_execute_segment_k"
    "_off_kernel__5x_cublas"
)


def _matmul(name: str, kind: str) -> Draw:
    dims = [[8192, 1024], [1024, 4096]]
    return lambda sketch: sketch.op("aten::mm", kernel(name, 250), dims=dims, types=[kind] * 2)


def test_tf32_becomes_bf16(fix: FixUnderTest) -> None:
    (found,) = fix.once(_matmul(TF32, "float"))
    assert times_us(found) == pytest.approx([94.6], abs=1)  # 68.7 GFLOP at 75% of the peak
    assert found.order == "run the model in bf16 (model.bfloat16())"  # there is no backward pass
    assert found.change.removed == ()
    assert "precision" in found.risk


@pytest.mark.parametrize(("name", "kind"), [("ampere_sgemm_128x64_tn", "float"), (GEMM, "")])
def test_others_stay(name: str, kind: str, fix: FixUnderTest) -> None:
    draw = _matmul(name, kind or "c10::BFloat16")
    assert not fix.once(draw)
