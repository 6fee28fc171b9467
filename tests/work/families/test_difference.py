"""Two names side by side: the fields that differ, and short names that tell kernels apart."""

from __future__ import annotations

import pytest

from foretrace.work import families
from foretrace.work.kernel import FieldChange
from work.families.test_contract import EXAMPLES

WIDE = "nvjet_sm90_tst_64x8_64x16_2x4_h_bz_TNT"
TALL = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"


def shorts(*names: str) -> list[str]:
    found = families.told_apart(map(families.decode, names))
    return [found[name].short for name in names]


def test_the_fields_that_changed() -> None:
    found = families.changed(families.decode(WIDE), families.decode(TALL))
    assert found == (FieldChange("cluster", [2, 4], [4, 1]), FieldChange("raster", "h", "v"))


def test_a_field_that_one_name_does_not_state() -> None:
    a, b = map(families.decode, (WIDE, "volta_sgemm_128x64_nn"))
    found = {change.field: (change.before, change.after) for change in families.changed(a, b)}
    assert found["family"] == ("nvjet", "cublas_legacy")
    assert found["cluster"] == ([2, 4], None)
    assert found["layout"] == ("tn", "nn")
    assert "role" not in found


def test_a_name_against_itself() -> None:
    assert families.changed(families.decode(WIDE), families.decode(WIDE)) == ()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((WIDE, TALL), ["nvjet 64x8x64 tn bf16 cluster 2x4", "nvjet 64x8x64 tn bf16 cluster 4x1"]),
        ((WIDE,), ["nvjet 64x8x64 tn bf16"]),
        (
            ("triton_poi_fused_gelu_mul_0", "triton_poi_fused_gelu_mul_2"),
            ["triton gelu+mul #0", "triton gelu+mul #2"],
        ),
        (
            (
                "cutlass_80_tensorop_s1688gemm_64x64_32x4_nt_align1",
                "cutlass_80_tensorop_s1688gemm_64x64_32x4_nt_align4",
                "cutlass_80_tensorop_s1688gemm_64x64_32x6_nt_align4",
            ),
            [
                "cutlass sm80 64x64x32 nt f32 4 stages align1",
                "cutlass sm80 64x64x32 nt f32 4 stages align4",
                "cutlass sm80 64x64x32 nt f32 6 stages align4",
            ],
        ),
        # nothing decoded differs: the short name stays what it is
        (("void frob::a(int)", "void frob::b(int)"), ["void frob::a(int)", "void frob::b(int)"]),
    ],
)
def test_short_names_in_one_trace(names: tuple[str, ...], expected: list[str]) -> None:
    assert shorts(*names) == expected


def test_short_names_keep_their_length() -> None:
    kernels = families.told_apart(families.decode(name) for _, name, _ in EXAMPLES)
    assert {name for name, kernel in kernels.items() if not 0 < len(kernel.short) <= 48} == set()
    assert all(kernel.name == name for name, kernel in kernels.items())


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        (
            "triton_poi_fused__scaled_dot_product_cudnn_attention__to_copy_bmm_mul_3",
            ["_to_copy", "mul"],
        ),
        ("triton_poi_fused_addmm_silu_2", ["silu"]),
        ("triton_tem_fused_addmm_silu_2", ["addmm", "silu"]),
        ("triton_per_fused__to_copy_addmm_mean_pow_view_7", ["_to_copy", "mean", "pow", "view"]),
        ("nvjet_sm90_tst_64x8_64x16_2x4_h_bz_TNT", []),
        ("triton__0d1d2de", []),
    ],
)
def test_the_ops_that_a_kernel_may_compute(name: str, ops: list[str]) -> None:
    assert families.own_ops(families.decode(name)) == ops
