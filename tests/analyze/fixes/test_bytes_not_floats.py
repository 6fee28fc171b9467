from __future__ import annotations

import pytest

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel, memcpy

IMAGES, FILTER = [128, 3, 224, 224], [64, 3, 7, 7]


def copied(sketch: Sketch, kind: str, width: int, dims: list[int] = IMAGES) -> None:
    size = width * 128 * 3 * 224 * 224
    up = memcpy("Memcpy HtoD (Pinned -> Device)", 350 * width, size)
    path = "aten::to > aten::_to_copy > aten::copy_"
    sketch.op(path, up, dims=[dims, dims], types=[kind, kind])


def convolved(sketch: Sketch) -> None:
    sketch.op("aten::conv2d", kernel(GEMM, 100), dims=[IMAGES, FILTER], types=["float", "float"])


def floats(sketch: Sketch) -> None:
    copied(sketch, "float", 4)
    convolved(sketch)


def whole_bytes(sketch: Sketch) -> None:
    copied(sketch, "unsigned char", 1)
    convolved(sketch)


def no_images(sketch: Sketch) -> None:
    copied(sketch, "float", 4, [128, 3 * 224 * 224])
    convolved(sketch)


def test_images_are_copied_as_bytes(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(floats)
    assert found.why == "each step copies 77.1 MB of f32 images, [128, 3, 224, 224]"
    assert now == pytest.approx(1_500, rel=0.05)
    assert 450 < then < 650


def test_what_is_no_image_of_floats_is_left_alone(fix: FixUnderTest) -> None:
    fix.stays(whole_bytes, no_images, convolved)
