"""Worked examples of `dense_mask`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import Example, Sketch, kernel

MASK = "triton_poi_fused_arange_le_where_1"
EXPAND = "triton_poi_fused_clone_expand_2"
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0"
QUERY, KEY = [4, 12, 512, 64], [4, 4, 512, 64]


def _sketch(mask: list[int], keys: list[int], made: list[int]) -> dict[str, Any]:
    return (
        Sketch()
        .step()
        .op(MASK, kernel(MASK, 3), dims=[[4, 512], made])
        .op(EXPAND, kernel(EXPAND, 5), dims=[[2048, 256], keys])
        .op("aten::_cudnn_attention_forward", kernel(CUDNN, 23), dims=[QUERY, keys, keys, mask])
        .document()
    )


SQUARE = [4, 1, 512, 512]
EXAMPLES = (
    Example(
        "a mask from positions, and key heads copied",
        lambda: _sketch(SQUARE, QUERY, SQUARE),
        {"mask": SQUARE, "calls": 1, "ns": 31000, "key_heads": 4, "query_heads": 12},
    ),
    Example(
        "a mask from positions, and key heads as they are",
        lambda: _sketch(SQUARE, KEY, SQUARE),
        {"mask": SQUARE, "calls": 1, "ns": 26000, "key_heads": None},
    ),
    Example("a mask that no generated kernel writes", lambda: _sketch(SQUARE, KEY, [4, 512]), None),
    Example("no mask", lambda: _sketch([], KEY, SQUARE), None),
)
