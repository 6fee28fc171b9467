"""A sequence that grows by a token, and is computed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.test_on_cpu import found
from analyze.rules.sketch import Sketch

FLOAT = ["float"]


def token(sketch: Sketch, queries: int, keys: int, by_hand: bool = False) -> None:
    dims = [[2, queries, 64], [64, 64], [64]]
    sketch.op("aten::linear > aten::addmm", us=500, dims=dims, types=FLOAT * 3)
    if by_hand:
        sketch.op("aten::softmax", us=100, dims=[[2, 4, queries, keys]], types=FLOAT)
    else:
        dims = [[2, 4, queries, 16], [2, 4, keys, 16], [2, 4, keys, 16]]
        sketch.op("aten::scaled_dot_product_attention", us=100, dims=dims, types=FLOAT * 3)
    sketch.op("aten::softmax", us=10, dims=[[2, 5000]], types=FLOAT)  # of the logits


@pytest.mark.parametrize("by_hand", [False, True])
def test_all_tokens_again_for_each_new_one(by_hand: bool, tmp_path: Path) -> None:
    lengths = iter((40, 41, 42))

    def step(sketch: Sketch) -> None:
        length = next(lengths)
        token(sketch, length, length, by_hand)

    (fix,) = [fix for fix in found(step, tmp_path) if fix.fix == "kv_cache"]
    assert fix.proposal.order == "keep the keys and values of earlier tokens (a KV cache)"
    assert fix.proposal.why == "all 42 tokens are computed again for each new one"
    assert fix.proposal.change.left == pytest.approx(1 - 0.9 * 41 / 42)
    assert sum(end - start for start, end in fix.proposal.change.removed) == pytest.approx(
        600_000, rel=0.01
    )


@pytest.mark.parametrize(
    ("queries", "keys"),
    [
        ((40, 40, 40), (40, 40, 40)),  # sequences of one length
        ((40, 43, 41), (40, 43, 41)),  # of any
        ((1, 1, 1), (40, 41, 42)),  # with a cache
        ((40, 1, 1), (40, 41, 42)),  # which the first step fills
        ((4, 5, 6), (4, 5, 6)),  # too short to matter
    ],
)
def test_what_is_no_growing_sequence(
    queries: tuple[int, ...], keys: tuple[int, ...], tmp_path: Path
) -> None:
    lengths = iter(zip(queries, keys, strict=True))
    fixes = found(lambda sketch: token(sketch, *next(lengths)), tmp_path)
    assert [fix for fix in fixes if fix.fix == "kv_cache"] == []


def test_training_has_no_cache(tmp_path: Path) -> None:
    lengths = iter((40, 41, 42))

    def step(sketch: Sketch) -> None:
        length = next(lengths)
        token(sketch, length, length)
        sketch.op("AddmmBackward0", us=100)
        sketch.events[-1]["args"] = {"Sequence number": 7, "Fwd thread id": 1}

    assert [fix for fix in found(step, tmp_path) if fix.fix == "kv_cache"] == []
