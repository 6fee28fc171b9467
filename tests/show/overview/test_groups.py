"""Rows of groups: they add up, they fold, and their limits say what the kernels prove."""

from __future__ import annotations

from pathlib import Path

import foretrace as ft
from corpus.places import RECORDED
from foretrace.schema.documents.look import GroupRow
from foretrace.show.overview.groups import group_rows
from foretrace.show.overview.modules import module_rows
from foretrace.show.overview.page import folded

MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"
_MODEL = "4x512x4x768x12x3072x32000_bf16"


def rows(name: str) -> dict[str, GroupRow]:
    trace = ft.open(RECORDED / "ladder" / f"{name}_{_MODEL}.json.gz", cache=False)
    return {row.name: row for row in group_rows(trace, trace.spans.steps)}


def test_what_an_expert_says_of_an_eager_model() -> None:
    found = rows("model_llama")
    assert found["GEMM, M=2048"].count == 30
    assert found["attention (cuDNN)"].count == 8
    assert found["RMSNorm"].limited_by == "8 kernels each, fusable"
    assert found["SwiGLU"].limited_by == "2 kernels each, fusable"
    assert found["RoPE"].limited_by == "5 to 9 kernels each, fusable"  # 9 for the tables


def test_kernels_of_one_module_are_not_said_to_be_fusable() -> None:
    """Keys and values are two caches: one cat each, in the module of attention."""
    trace = ft.open(MODULES, cache=False)
    found = {row.name: row for row in group_rows(trace, trace.spans.steps)}
    assert found["KV cache"].count == 4
    assert "fusable" not in found["KV cache"].limited_by
    assert found["RMSNorm"].limited_by == "8 kernels each forward, fusable"


def test_a_compiled_model_is_not_said_to_be_fusable() -> None:
    found = rows("model_compiled")
    assert not [row.name for row in found.values() if "fusable" in row.limited_by]


def test_optimizers_by_class_and_kind() -> None:
    for name, shown in (("foreach", "foreach"), ("forloop", "for loop"), ("fused", "fused")):
        assert f"optimizer (AdamW, {shown})" in rows(f"train_step_{name}")


def test_attention_that_is_not_fused() -> None:
    trace = ft.open(RECORDED / "ladder" / "attention_naive_8x16x1024x64_bf16.json.gz", cache=False)
    first = group_rows(trace, trace.spans.steps)[0]
    assert (first.name, first.count) == ("attention (unfused)", 6)
    assert first.limited_by == "5 kernels each, not fused"


def test_a_single_small_group_keeps_its_row() -> None:
    found = [GroupRow("GEMM", 990, 0.995, 1, ""), GroupRow("fills", 5, 0.005, 1, "")]
    assert folded(found) == found


def test_modules_of_a_trace() -> None:
    trace = ft.open(RECORDED / "linear_eager_stack.json.gz", cache=False)
    assert [(row.name, row.calls, row.kernels) for row in module_rows(trace)] == [
        ("Linear_0", 3, 3)
    ]
