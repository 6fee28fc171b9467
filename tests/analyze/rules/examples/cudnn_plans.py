"""Worked examples of `cudnn_plans`."""

from __future__ import annotations

from typing import Any

from analyze.rules.examples.dense_mask import CUDNN
from analyze.rules.sketch import Example, Sketch, kernel

OP = "aten::_scaled_dot_product_cudnn_attention > aten::_cudnn_attention_forward"


def _sketch(*calls: tuple[int, float]) -> dict[str, Any]:
    sketch = Sketch()
    for tokens, us in calls:
        keys = [1, 8, tokens, 64]
        sketch.step().op(OP, kernel(CUDNN, 20), us=us, dims=[[1, 8, 1, 64], keys, keys])
    return sketch.document()


EXAMPLES = (
    Example(
        "a cache that grows",
        lambda: _sketch((512, 100), (513, 55_000), (514, 55_000), (515, 55_000)),
        {"plans": 3, "median_ns": 54_998_800, "last_shape": "[1, 8, 515, 64] bf16"},
    ),
    Example("known shapes", lambda: _sketch((512, 100), (513, 100), (514, 100)), None),
    Example("the first call of all", lambda: _sketch((512, 55_000), (512, 100)), None),
    Example("slow for another reason", lambda: _sketch(*((512, 55_000),) * 3), None),
)
