"""Kernels that are faster than HBM: what L2 explains, and what stays in doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corpus.builder import TraceBuilder
from opened_traces import open_made

BF16 = "c10::BFloat16"
SMALL, LARGE = [4096, 2048], [8192, 4096]  # 16.8 MB and 67.1 MB of bf16; an H200's L2 has 62.9 MB
H200 = {"id": 0, "name": "NVIDIA H200", "numSms": 132, "computeMajor": 9, "computeMinor": 0}
Launch = tuple[str, list[list[int]], int]


def last_case(
    folder: Path, *launches: Launch, card: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The case of the last of these kernels (op, shapes, ns), each 1 us behind the one before."""
    builder, start = TraceBuilder(header={"deviceProperties": [card or H200]}), 100_000
    for number, (op, dims, ns) in enumerate(launches):
        at = 10_000 * number
        builder.op(op, at, 5_000, dims=dims, types=[BF16] * len(dims))
        builder.launch(at + 1_000, 500).kernel(f"kernel_{number}", start, ns)
        start += ns + 1_000
    cases = open_made(builder, folder).kernel_cases
    return cases.filter(cases["name"] == f"kernel_{len(launches) - 1}").row(0, named=True)


def test_a_kernel_that_beats_hbm_from_l2_is_explained(tmp_path: Path) -> None:
    """50.3 MB in 9 us are 5.59 TB/s; what gelu wrote 1 us before is in L2."""
    case = last_case(tmp_path, ("aten::gelu", [SMALL], 8_000), ("aten::mul", [SMALL, SMALL], 9_000))
    assert (case["bound"], case["limited_by"]) == (
        "l2",
        "from L2: gelu wrote 16.8 MB 1.00 us before (62% of its roof)",
    )
    assert case["gbps"] == pytest.approx(5592.4, abs=0.1)
    use = case["cache_use"]
    assert (use["verdict"], use["cache_bytes"]) == ("certain", 62_914_560)
    assert use["excess_bytes"] == 50_331_648 - 42_381_000  # less 9 us of 4.709 TB/s
    assert use["inputs"] == [
        {
            "tensor": "[4096, 2048] bf16",
            "bytes": 16_777_216,
            "op": "aten::gelu",
            "kernel": "kernel_0",
            "before_ns": 1_000,
            "between_bytes": 0,
            "unpriced": 0,
        }
    ]


def test_of_several_results_of_one_size_the_last_is_likely(tmp_path: Path) -> None:
    """Neither fill has been read: which of the two the sum reads is not in the trace."""
    fill = ("aten::fill_", [SMALL], 8_000)
    case = last_case(
        tmp_path, fill, ("aten::normal_", [SMALL], 8_000), ("aten::sum", [SMALL], 3_000)
    )
    assert (
        case["limited_by"]
        == "likely from L2: normal_ wrote 16.8 MB 1.00 us before (62% of its roof)"
    )


def test_a_result_that_another_kernel_read_is_that_ones_input(tmp_path: Path) -> None:
    """gelu, then its sum: the mul behind reads two other tensors."""
    case = last_case(
        tmp_path,
        ("aten::gelu", [SMALL], 8_000),
        ("aten::neg", [SMALL], 8_000),
        ("aten::mul", [SMALL, SMALL], 9_000),
    )
    assert [found["op"] for found in case["cache_use"]["inputs"]] == ["aten::neg"]


def test_a_working_set_that_is_too_large_is_doubted(tmp_path: Path) -> None:
    """67.1 MB in 13 us are 5.16 TB/s, and no cache of 62.9 MB keeps them."""
    case = last_case(tmp_path, ("aten::gelu", [LARGE], 30_000), ("aten::sum", [LARGE], 13_000))
    assert (case["bound"], case["gbps"]) == ("unknown", None)
    assert case["limited_by"] == "faster than HBM, and its 67.1 MB exceed L2: cost in doubt"
    assert case["cache_use"]["too_large"] == 67_108_866


def test_traffic_in_between_empties_l2(tmp_path: Path) -> None:
    case = last_case(
        tmp_path,
        ("aten::gelu", [SMALL], 8_000),
        ("aten::fill_", [LARGE], 20_000),
        ("aten::sum", [SMALL], 3_000),
    )
    assert case["cache_use"]["verdict"] == "doubted"
