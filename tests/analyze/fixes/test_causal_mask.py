from __future__ import annotations

import pytest

from analyze.fixes.proposing import FixUnderTest, times_us
from analyze.rules.sketch import COPY, Sketch, kernel

FLASH = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_128x128x128_4x1x1"
Q = [2, 16, 4096, 64]


def attention(sketch: Sketch, mask: list[int], strides: list[int] | None = None) -> None:
    plain = [[], [], [], strides] if strides else None
    sketch.op(
        "aten::_scaled_dot_product_cudnn_attention",
        kernel(COPY, 40),
        kernel(FLASH, 1000),
        dims=[Q, Q, Q, mask],
        strides=plain,
    )


def test_a_mask_for_all_heads_becomes_is_causal(fix: FixUnderTest) -> None:
    (found,) = fix.once(lambda sketch: attention(sketch, [4096, 4096]))
    assert found.order == "pass is_causal=True to SDPA instead of attn_mask"
    assert found.why == "1 attention per step read a mask of 4096 x 4096"
    assert "causal" in found.risk
    (us,) = times_us(found)
    assert 150 < us < 300  # half of 137 GFLOP at 36% of the peak
    assert len(found.change.gone) == 1


def test_an_expanded_mask_is_one_for_all(fix: FixUnderTest) -> None:
    mask, strides = [2, 16, 4096, 4096], [0, 0, 4096, 1]
    assert fix.once(lambda sketch: attention(sketch, mask, strides))


@pytest.mark.parametrize(
    "mask",
    [
        [],  # no mask
        [2, 1, 4096, 4096],  # one for each sequence: padding
        [1, 16, 4096, 4096],  # one for each head: a bias
        [4096, 2048],
    ],
)
def test_other_masks_stay(mask: list[int], fix: FixUnderTest) -> None:
    assert not fix.once(lambda sketch: attention(sketch, mask))
