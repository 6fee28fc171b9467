"""Float32 without TF32, and with it."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest, times_us
from analyze.rules.sketch import kernel
from opened_traces import FAULTS

START = "_xmma_fprop_implicit_gemm_f32f32_"
PLAIN = f"sm80{START}f32f32_f32_nchwkcrs_nchw_tilesize128x32x8_stage3_warpsize2x2x1_g1_ffma_aligna4_alignc4_execute_kernel__5x_cudnn"  # fmt: skip
TF32 = f"sm90{START}tf32f32_f32_nhwckrsc_nhwc_tilesize64x256x32_warpgroupsize1x1x1_g1_execute_segment_k_on_kernel__5x_cudnn"  # fmt: skip


def _convolution(name: str) -> Draw:
    return lambda sketch: sketch.op(
        "aten::conv2d > aten::cudnn_convolution",
        kernel(name, 960),
        dims=[[32, 256, 28, 28], [256, 256, 3, 3], [], [], [], [], [], [], []],
        types=["float", "float", *["ScalarList"] * 3, *["Scalar"] * 4],
        concrete=["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "False"],
    )


def test_convolutions_without_tf32(fix: FixUnderTest) -> None:
    (found,) = fix.once(_convolution(PLAIN))
    assert found.order == "set torch.backends.cudnn.allow_tf32 = True"
    assert times_us(found) == pytest.approx([134], abs=5)


def test_matmuls_without_tf32(fix: FixUnderTest) -> None:
    (found,) = fix.recorded(FAULTS / "linear_float32.json.gz")
    assert found.order == 'call torch.set_float32_matmul_precision("high")'


def test_tf32_stays(fix: FixUnderTest) -> None:
    assert not fix.once(_convolution(TF32))
