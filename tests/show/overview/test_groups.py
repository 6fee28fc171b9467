"""Groups of GPU work: their rows, names and limits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import foretrace as ft
from analyze.rules.sketch import MUL, Sketch, kernel, memcpy
from corpus.places import RECORDED
from foretrace.model.order import Case
from foretrace.schema.documents.look import GroupRow
from foretrace.schema.kernel import KernelId
from foretrace.show.overview.groups import CaseTime, GroupWork, group_rows, limited_by
from foretrace.show.overview.modules import module_rows
from foretrace.show.overview.page import folded
from opened_traces import opened

MODULES = Path(__file__).parents[2] / "recorded" / "llama_train_modules.json.gz"
_MODEL = "4x512x4x768x12x3072x32000_bf16"


def rows(name: str) -> dict[str, GroupRow]:
    trace = opened(RECORDED / "ladder" / f"{name}_{_MODEL}.json.gz")
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
    trace = opened(MODULES)
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
    trace = opened(RECORDED / "ladder" / "attention_naive_8x16x1024x64_bf16.json.gz")
    first = group_rows(trace, trace.spans.steps)[0]
    assert (first.name, first.count) == ("attention (unfused)", 6)
    assert first.limited_by == "5 kernels each, not fused"


def test_a_single_small_group_keeps_its_row() -> None:
    found = [GroupRow("GEMM", 990, 0.995, 1, ""), GroupRow("fills", 5, 0.005, 1, "")]
    assert folded(found) == found


def test_two_steps_with_the_same_work_count_it_once_each(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(Sketch().step().op("aten::mul", kernel(MUL, 100)).document()))
    trace = ft.open(path, cache=False)
    (row,) = group_rows(trace, trace.spans.steps * 2)  # a step that was recorded twice
    assert (row.time_ns, row.share, row.count) == (100_000, 1.0, 1)


def test_modules_of_a_trace() -> None:
    trace = opened(RECORDED / "linear_eager_stack.json.gz")
    assert [(row.name, row.calls, row.kernels) for row in module_rows(trace)] == [
        ("Linear_0", 3, 3)
    ]


TOTAL_US = 100


def case_time(us: float, bound: str, percent: float | None, text: str) -> CaseTime:
    """A case that takes `us` in ten launches."""
    kernel_id = KernelId("k", "k", "unknown", "pointwise")
    rates = (None, None, None, None, None, None, bound, percent, text)
    case = Case(0, kernel_id, "pointwise", "", None, 10, int(us * 1000), us * 100, *rates)
    return CaseTime(case, int(us * 1000), 10)


def said(folder: Path, *cases: CaseTime) -> str:
    path = folder / "trace.json"
    path.write_text(json.dumps(Sketch().step().op("aten::mul", kernel(MUL, TOTAL_US)).document()))
    return limited_by(GroupWork(ft.open(path, cache=False), "pointwise", np.array([0]), [*cases]))


def test_at_the_roof(tmp_path: Path) -> None:
    cases = (case_time(60, "memory", 82.9, ""), case_time(40, "memory", 71.0, ""))
    assert said(tmp_path, *cases) == "71 to 82% of the HBM roof"


def test_below_the_roof_with_the_cause_of_most_of_the_time(tmp_path: Path) -> None:
    strided = case_time(80, "memory", 31.4, "31% of HBM: strided operand")
    other = case_time(20, "memory", 45.0, "45% of HBM, cause not in the trace")
    assert said(tmp_path, strided, other) == "31 to 45% of HBM: strided operand"
    assert said(tmp_path, case_time(100, "compute", 60.0, "")) == "60% of compute"


def test_a_bound_stays_one(tmp_path: Path) -> None:
    most = case_time(60, "memory", 51.0, "at most 51% of HBM")
    assert said(tmp_path, most) == "at most 51% of HBM"
    least = case_time(40, "memory", 33.0, "at least 33% of HBM")
    assert said(tmp_path, most, least) == "about 33 to 51% of HBM"
    cases = (
        case_time(60, "memory", 33.0, "at least 33% of HBM"),
        case_time(40, "memory", 50.0, "50% of HBM, cause not in the trace"),
    )
    assert said(tmp_path, *cases) == "at least 33 to 50% of HBM"
    assert said(tmp_path, case_time(100, "memory", 14.6, "about 14% of HBM")) == "about 14% of HBM"


def test_causes_with_a_number_of_their_own_are_joined(tmp_path: Path) -> None:
    waves = [case_time(50, "compute", 55.0, f"55% of compute: last wave {n}% full") for n in (7, 9)]
    assert said(tmp_path, *waves) == "55% of compute: last wave partly full"


def test_few_blocks(tmp_path: Path) -> None:
    few = [case_time(45, "latency", 3.0, f"latency: {n} blocks on 132 SMs") for n in (4, 24)]
    small = case_time(10, "latency", 1.0, "latency: only 2.1 kB")
    assert said(tmp_path, *few, small) == "4 to 24 blocks on 132 SMs"


def test_small_kernels(tmp_path: Path) -> None:
    small = case_time(100, "latency", 1.0, "latency: only 2.1 kB")
    assert said(tmp_path, small) == "latency: little work"


@pytest.mark.parametrize(("share", "text"), [(49, ""), (51, "18% of HBM")])
def test_a_bound_must_explain_half_of_the_time(share: int, text: str, tmp_path: Path) -> None:
    known = case_time(share, "memory", 18.0, "18% of HBM")
    assert said(tmp_path, known, case_time(100 - share, "unknown", None, "")) == text


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        ("l2", "from L2 (0 to 99% of its roof)"),
        ("memory", "0 to 99% of HBM: short kernels"),
        ("latency", "latency: little work"),
    ],
)
def test_of_many_small_kernels_all_count(bound: str, text: str, tmp_path: Path) -> None:
    """None takes 2% of the time: `look` stopped where none remained."""
    cases = [case_time(1, bound, percent, f"latency: only {percent} B") for percent in range(100)]
    assert said(tmp_path, *cases) == text


def test_two_bounds(tmp_path: Path) -> None:
    cases = (
        case_time(50, "memory", 40.0, ""),
        case_time(30, "compute", 60.0, ""),
        case_time(20, "latency", 1.0, "latency: only 2.1 kB"),
    )
    assert said(tmp_path, *cases) == "40% of HBM; 60% of compute"


def test_copies_from_the_host_by_rate_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    slow = memcpy("Memcpy HtoD (Pageable -> Device)", 10, 13_000)
    fast = memcpy("Memcpy HtoD (Pinned -> Device)", 5, 250_000)
    path.write_text(json.dumps(Sketch().step().op("aten::copy_", slow, fast).document()))
    (row,) = group_rows(ft.open(path, cache=False))
    assert (row.name, row.limited_by) == ("copy HtoD", "1.3 GB/s, pageable; 50 GB/s, pinned")


def test_copies_that_take_no_time_have_no_rate(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    copy = memcpy("Memcpy HtoD (Pageable -> Device)", 0, 13_000)
    path.write_text(json.dumps(Sketch().step().op("aten::copy_", copy).document()))
    (row,) = group_rows(ft.open(path, cache=False))
    assert (row.name, row.limited_by) == ("copy HtoD", "pageable")
