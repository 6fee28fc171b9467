"""Float32 on a card whose tensor cores take float16 alone."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import FixUnderTest, times_us
from analyze.rules.sketch import Sketch, kernel
from opened_traces import open_made


def _found(fix: FixUnderTest, device: str, name: str) -> list[tuple[str, list[float]]]:
    sketch = Sketch(device, (7, 0), 80).step().op("aten::mm", kernel(name, 200))
    step = fix.found(open_made(sketch, fix.folder), at=0, steady=False)
    return [(each.order, times_us(each)) for each in step[1]]


def test_a_v100_without_shapes(fix: FixUnderTest) -> None:
    found = _found(fix, "Tesla V100-SXM2-32GB", "volta_sgemm_128x64_tn")
    assert found == [("run the model in float16 (model.half())", [110.0])]  # 55% of 200 us


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "volta_sgemm_128x64_tn"),
        ("Tesla V100-SXM2-32GB", "volta_h884gemm_128x64_tn"),
    ],
)
def test_others_stay(device: str, name: str, fix: FixUnderTest) -> None:
    assert not _found(fix, device, name)
