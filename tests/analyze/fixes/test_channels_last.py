"""Changes of layout around convolutions, and group norm between them."""

from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import ADD, Sketch, kernel

LAYOUT = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)0>(cudnn::engines_precompiled::nchw2nhwc_params_t<float>, float const*, float*)"
CONV = "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x256x32_warpgroupsize1x1x1_g1_execute_segment_k_on_kernel__5x_cudnn"


def _convolution(sketch: Sketch, channels: int) -> Sketch:
    work = (kernel(LAYOUT, 8), kernel(CONV, 95), kernel(LAYOUT, 12))
    dims = [[32, channels, 28, 28], [256, channels, 3, 3]]
    return sketch.op("aten::conv2d > aten::cudnn_convolution", *work, dims=dims)


def test_changes_of_layout_are_gone(fix: FixUnderTest) -> None:
    (found,) = fix.once(lambda sketch: _convolution(sketch, 256))
    assert len(found.change.gone) == 2


def test_images_are_padded_all_the_same(fix: FixUnderTest) -> None:
    (found,) = fix.once(lambda sketch: _convolution(sketch, 3))
    assert not found.change.gone


def test_group_norm_is_slower(fix: FixUnderTest) -> None:
    def draw(sketch: Sketch) -> None:
        _convolution(sketch, 256).op("aten::group_norm", kernel(ADD, 10))

    assert not fix.once(draw)
