"""Roles: from the name first, from the launching op where the name says nothing; and the card a
kernel was written for.
"""

from __future__ import annotations

import pytest

from foretrace.names import families
from foretrace.schema.kernel import ROLES


@pytest.mark.parametrize(
    ("op", "role"),
    [
        ("aten::addmm", "gemm"),
        ("aten::mm.out", "gemm"),
        ("aten::convolution_backward", "conv"),
        ("aten::copy_", "copy"),
        ("aten::_scaled_dot_product_flash_attention_backward", "attention"),
        ("aten::native_layer_norm_backward", "normalization"),
        ("aten::_log_softmax_backward_data", "softmax"),
        ("aten::sum", "reduction"),
        ("aten::index_put_", "scatter_gather"),
        ("aten::_foreach_addcdiv_", "optimizer"),
        ("aten::gelu_backward", "pointwise"),
        ("aten::normal_", "random"),
        ("aten::sort", "sort"),
        ("c10d::allreduce_", "comms"),
        ("record_param_comms", "comms"),
        ("nccl:all_reduce", "comms"),
        ("vllm::unified_attention_with_output", "attention"),
        ("_C::rms_norm", "normalization"),
        ("aten::nothing_like_it", "other"),
        ("", "other"),
        ("::", "other"),
    ],
)
def test_the_role_of_an_op(op: str, role: str) -> None:
    assert role in ROLES
    assert families.role_of_op(op) == role


def test_the_name_decides_and_the_op_helps() -> None:
    assert families.role_for("volta_sgemm_128x64_nn", "aten::cudnn_convolution") == "gemm"
    assert families.role_for("some_kernel_nobody_knows", "aten::addmm") == "gemm"
    assert families.role_for("some_kernel_nobody_knows", None) == "other"
    assert families.role_for("some_kernel_nobody_knows", "") == "other"


@pytest.mark.parametrize(
    ("name", "role"),
    [
        (
            "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, true>(P)",
            "reduction",
        ),
        ("triton_poi_fused_native_layer_norm_0", "pointwise"),
        ("triton_per_fused_add_native_layer_norm_2", "normalization"),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "normalization"),
        ("triton_red_fused__softmax_1", "softmax"),
        ("triton_red_fused__softmax_native_layer_norm_1", "reduction"),
        ("triton_red_fused_sum_1", "reduction"),
        ("triton_tem_fused_mm_3", "gemm"),
        ("triton_poi_fused__scaled_dot_product_cudnn_attention__to_copy_bmm_mul_3", "pointwise"),
        ("triton_per_fused__to_copy_addmm_mean_pow_view_7", "reduction"),
        (
            "void transformer_engine::normalization::rmsnorm_bwd_finalize_tuned_kernel<"
            "transformer_engine::normalization::Kernel_traits_finalize<4096u> >(P)",
            "normalization",
        ),
        ("rmsnorm_bwd_finalize_kernel", "normalization"),
        ("_finalize_matmul_scatter_bf16", "scatter_gather"),
        ("triton_tem_fused_convolution_3", "conv"),
        ("triton_tem_fused_flex_attention_3", "attention"),
        ("triton_for_fused_1", "pointwise"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
        ("cudaLaunchKernel", "other"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "comms"),
        ("__amd_rocclr_copyBuffer", "copy"),
    ],
)
def test_the_role_of_a_kernel(name: str, role: str) -> None:
    assert families.decode(name).role == role


def test_rocm_symbols() -> None:
    for name in (
        "triton_poi_fused_add_0",
        "batched_transpose_32x32_half",
        "__amd_rocclr_copyBuffer",
        "attn_fwd",
    ):
        plain, symbol = families.decode(name), families.decode(f"{name}.kd")
        assert symbol.name == f"{name}.kd"
        assert (symbol.family, symbol.role, symbol.fields) == (
            plain.family,
            plain.role,
            plain.fields,
        )


def test_unknown_names() -> None:
    for name in ("", "Frobnicate", "void frob::nicate(int)", "aten::mm"):
        kernel = families.decode(name)
        assert (kernel.family, kernel.role, dict(kernel.fields)) == ("unknown", "other", {})


@pytest.mark.parametrize(
    ("name", "arch", "words"),
    [
        (
            "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_64x3_tn_align2",
            "sm_90",
            "older than sm90 (Hopper)",
        ),
        ("nvjet_sm90_tst_64x64_64x8_2x1_v_bz_TNT", "sm90", "this card's own generation"),
        ("nvjet_sm100_tst_64x64_64x8_2x1_v_bz_TNT", "sm90", "cannot have run there"),
        ("nvjet_tst_64x64_64x8_2x1_v_bz_TNT", "sm90", "states no chip generation"),
        ("Cijk_Alik_Bljk_DB_MT64x64x16_MI16x16x4x1_SN_ISA942_WG16_16_1", "gfx942", "this card"),
        ("volta_sgemm_128x64_tn", "gfx942", "not for gfx942"),
    ],
)
def test_the_card_it_was_written_for(name: str, arch: str, words: str) -> None:
    assert words in families.on_card(families.decode(name), arch)
