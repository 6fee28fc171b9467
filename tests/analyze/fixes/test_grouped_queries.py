"""Keys and values that are copied for groups of queries."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import COPY, Sketch, kernel

CUDNN = "aten::_scaled_dot_product_cudnn_attention"
KERNEL = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0"


def _attention(sketch: Sketch, repeat: int, inner: str) -> None:
    """One attention; the shapes are those of the public op."""
    whole, part = [1048576 * 4, 1048576, 131072, 64, 1], [524288, 131072, repeat, 64, 1]
    for _ in range(2):
        sketch.op(
            "aten::repeat_interleave > aten::copy_",
            kernel(COPY, 70),
            dims=[[8, 4, 8, 2048, 64]] * 2,
            strides=[whole, part],
        )
    heads = [8, 32, 2048, 64]
    sketch.op(
        f"aten::scaled_dot_product_attention > {inner}", kernel(KERNEL, 340), dims=[heads] * 3
    )
    outer = next(each for each in sketch.events if each["name"].endswith("product_attention"))
    outer["args"] = {"Input Dims": [heads] * 3, "Input type": ["c10::BFloat16"] * 3}


def test_copies_of_repeated_keys_are_gone(fix: FixUnderTest) -> None:
    (found,) = fix.once(lambda sketch: _attention(sketch, 0, CUDNN))
    assert len(found.change.gone) == 2
    assert len(found.change.removed) == 2


@pytest.mark.parametrize(
    ("repeat", "inner"),
    [(64, CUDNN), (0, "aten::_scaled_dot_product_efficient_attention")],
)
def test_plain_copies_and_other_kernels_stay(repeat: int, inner: str, fix: FixUnderTest) -> None:
    draw = lambda sketch: _attention(sketch, repeat, inner)  # noqa: E731
    assert not fix.once(draw)
