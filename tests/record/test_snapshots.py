"""Kernel multisets as text, and what changed between two."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from check.conftest import recorded, without
from foretrace.check.windows import Unknown
from foretrace.record.snapshots import difference, from_text, kernels, normal, to_text

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, "
    "3ul>)"
)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            ELEMENTWISE,
            "vectorized_elementwise_kernel<8, CUDAFunctor_add<BFloat16>, array<char*, 3ul> >",
        ),
        ("triton_poi_fused__unsafe_view_gelu_mul_0", "triton_poi_fused__unsafe_view_gelu_mul"),
        ("graph_3_cpp_fused__unsafe_view_gelu_mul_12", "cpp_fused__unsafe_view_gelu_mul"),
        (
            "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT",
            "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT",
        ),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("aten::mm", "aten::mm"),
        ("(a::b)", "(a::b)"),
        ("", ""),
    ],
)
def test_names_lose_what_changes_from_build_to_build(name: str, shown: str) -> None:
    assert normal(name) == shown


def test_a_snapshot_reads_back() -> None:
    bag = kernels(recorded("mlp_eager"))
    assert from_text(to_text(bag, "sm90")) == bag
    assert sum(bag.values()) == 7  # five kernels and two memsets, of one step


def test_what_changed() -> None:
    was = Counter(
        {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT": 2, "gone": 1, "more": 1, "same": 3}
    )
    now = Counter(
        {"nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT": 2, "new": 1, "more": 2, "same": 3}
    )
    found = difference(was, now)
    assert (found.removed, found.added) == (("1 x gone",), ("1 x new",))
    assert found.changed == (
        ("1 x more", "2 x more"),
        (
            "2 x nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
            "2 x nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT",
        ),
    )
    assert not difference(was, was)


def test_a_gpu_that_was_not_recorded_has_no_snapshot(tmp_path: Path) -> None:
    blind = without(
        tmp_path,
        "mlp_eager",
        drop=lambda event: event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"),
    )
    with pytest.raises(Unknown, match="the profiler did not record any"):
        kernels(blind)
