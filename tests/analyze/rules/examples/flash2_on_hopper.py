"""Worked examples of `flash2_on_hopper`."""

from __future__ import annotations

from typing import Any

from analyze.rules.sketch import Example, Sketch, kernel

FORWARD = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t, Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, {}, "
    "false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)"
)


def _sketch(sketch: Sketch, tokens: int = 2048) -> dict[str, Any]:
    shape = [4, tokens, 16, 128]
    op = "aten::_flash_attention_forward"
    return sketch.step().op(op, kernel(FORWARD.format("true"), 270), dims=[shape] * 3).document()


EXAMPLES = (
    Example("on an H200", lambda: _sketch(Sketch()), {"count": 1, "ns": 270000}),
    Example("decoding: one query", lambda: _sketch(Sketch(), 1), None),
    Example("on an A100", lambda: _sketch(Sketch("NVIDIA A100-SXM4-80GB", (8, 0), 108)), None),
)
