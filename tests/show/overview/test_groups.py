"""Groups of GPU work: their rows, names and limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analyze.rules.sketch import MUL, Sketch, kernel, memcpy
from corpus.places import RECORDED
from foretrace.model.kernels import Case
from foretrace.schema.documents.look import GroupRow
from foretrace.schema.kernel import KernelId
from foretrace.show.overview.groups import CaseTime, GroupWork, group_rows, limited_by
from foretrace.show.overview.look_document import module_rows
from foretrace.show.overview.page import folded
from opened_traces import open_made, opened

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
    trace = open_made(Sketch().step().op("aten::mul", kernel(MUL, 100)).document(), tmp_path)
    (row,) = group_rows(trace, trace.spans.steps * 2)  # a step that was recorded twice
    assert (row.time_ns, row.share, row.count) == (100_000, 1.0, 1)


def test_modules_of_a_trace() -> None:
    trace = opened(RECORDED / "linear_eager_stack.json.gz")
    assert [(row.name, row.calls, row.kernels) for row in module_rows(trace)] == [
        ("Linear_0", 3, 3)
    ]


def case_time(us: float, bound: str, percent: float | None, text: str) -> CaseTime:
    """A case that takes `us` in ten launches."""
    kernel_id = KernelId("k", "k", "unknown", "pointwise")
    called = ("", "pointwise", None, None, None, None)
    rates = (None, None, None, bound, percent, text)
    case = Case(*called, 0, kernel_id, 10, int(us * 1000), us * 100, *rates)
    return CaseTime(case, int(us * 1000), 10)


def bound_time(bound: str, *rows: tuple[float, float | None, str]) -> list[CaseTime]:
    return [case_time(us, bound, percent, text) for us, percent, text in rows]


MOST, LEAST = (60, 51.0, "at most 51% of HBM"), (40, 33.0, "at least 33% of HBM")
STRIDED = (80, 31.4, "31% of HBM: strided operand")
SMALL = (10, 1.0, "latency: only 2.1 kB")
UNKNOWN = "cause not in the trace"
# None of many takes 2% of the time: `look` stopped where none remained.
MANY = [(1, percent, f"latency: only {percent} B") for percent in range(100)]
# A bound must explain half of the time.
HALF = (
    [
        *bound_time("memory", (share, 18.0, "18% of HBM")),
        case_time(100 - share, "unknown", None, ""),
    ]
    for share in (49, 51)
)
LIMITS = [
    (bound_time("memory", (60, 82.9, ""), (40, 71.0, "")), "71 to 82% of the HBM roof"),
    (
        bound_time("memory", STRIDED, (20, 45.0, f"45% of HBM, {UNKNOWN}")),
        "31 to 45% of HBM: strided operand",
    ),
    (bound_time("compute", (100, 60.0, "")), "60% of compute"),
    (bound_time("memory", MOST), "at most 51% of HBM"),
    (bound_time("memory", MOST, LEAST), "about 33 to 51% of HBM"),
    (
        bound_time("memory", (60, *LEAST[1:]), (40, 50.0, f"50% of HBM, {UNKNOWN}")),
        "at least 33 to 50% of HBM",
    ),
    (bound_time("memory", (100, 14.6, "about 14% of HBM")), "about 14% of HBM"),
    (
        bound_time(
            "compute", *((50, 55.0, f"55% of compute: last wave {n}% full") for n in (7, 9))
        ),
        "55% of compute: last wave partly full",
    ),
    (
        bound_time(
            "latency", *((45, 3.0, f"latency: {n} blocks on 132 SMs") for n in (4, 24)), SMALL
        ),
        "4 to 24 blocks on 132 SMs",
    ),
    (bound_time("latency", (100, *SMALL[1:])), "latency: little work"),
    *zip(HALF, ("", "18% of HBM"), strict=True),
    (bound_time("l2", *MANY), "from L2 (0 to 99% of its roof)"),
    (bound_time("memory", *MANY), "0 to 99% of HBM: short kernels"),
    (bound_time("latency", *MANY), "latency: little work"),
    (
        [
            *bound_time("memory", (50, 40.0, "")),
            *bound_time("compute", (30, 60.0, "")),
            *bound_time("latency", (20, *SMALL[1:])),
        ],
        "40% of HBM; 60% of compute",
    ),
]


def test_what_limits_a_group_in_words(tmp_path: Path) -> None:
    trace = open_made(Sketch().step().op("aten::mul", kernel(MUL, 100)).document(), tmp_path)
    said = [limited_by(GroupWork(trace, "pointwise", np.array([0]), cases)) for cases, _ in LIMITS]
    assert said == [text for _, text in LIMITS]


@pytest.mark.parametrize(
    ("copies", "text"),
    [
        ([("Pageable", 10, 13_000), ("Pinned", 5, 250_000)], "1.3 GB/s, pageable; 50 GB/s, pinned"),
        ([("Pageable", 0, 13_000)], "pageable"),  # no time, no rate
    ],
)
def test_copies_from_the_host_by_rate_and_memory(
    copies: list[tuple[str, int, int]], text: str, tmp_path: Path
) -> None:
    made = [memcpy(f"Memcpy HtoD ({kind} -> Device)", us, size) for kind, us, size in copies]
    (row,) = group_rows(open_made(Sketch().step().op("aten::copy_", *made).document(), tmp_path))
    assert (row.name, row.limited_by) == ("copy HtoD", text)
