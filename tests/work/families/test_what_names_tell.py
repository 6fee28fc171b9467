"""What a name tells: role, short name, the card it was written for, and what stays absent."""

from __future__ import annotations

import pytest

from foretrace.work import families
from foretrace.work.kernel import ROLES
from sweep import looped


@looped(
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
        ("aten::cumsum", "scan"),
        ("aten::logcumsumexp", "scan"),
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


@looped(
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
        ("triton_red_fused_cumsum_sum_1", "reduction"),
        ("triton_per_fused_cumsum_0", "scan"),
        ("triton_spl_fused_cumsum_0", "scan"),
        ("void at::native::tensor_kernel_scan_outer_dim<float, std::plus<float>>(int)", "scan"),
        ("void cub::DeviceScanKernel<int>(int)", "scan"),
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


def test_what_a_name_does_not_state_is_absent() -> None:
    # int8: the letter is a scale's
    assert "dtype_acc" not in families.decode("nvjet_bsb_128x128_128x6_2x1_v_bz_TNT").fields
    # a CUDA 12 library names none
    assert "arch" not in families.decode("nvjet_tst_64x64_64x8_2x1_v_bz_TNT").fields
    assert "arch" not in families.decode("maxwell_sgemm_128x64_tn").fields
    # split-K is not in these names
    assert "splitk" not in families.decode("volta_sgemm_128x64_tn").fields
    moments = "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float, float>(long)"
    assert "op" not in families.decode(moments).fields  # group norm now, layer norm once
    old = (
        "void at::native::elementwise_kernel<128, 2, "
        "at::native::gpu_kernel_impl<at::native::CUDAFunctor_add<float> >"
        "(at::TensorIteratorBase&)::{lambda(int)#1}>(int)"
    )
    assert "cast" not in families.decode(old).fields  # an older PyTorch used it for both
    alien = (
        "void at::native::vectorized_elementwise_kernel<4, "
        "fbgemm_gpu::_float_to_hfp8_gpu(at::Tensor const&)::"
        "{lambda(float)#1}, std::array<char*, 2ul> >(int)"
    )
    assert "op" not in families.decode(alien).fields


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "nvjet 256x128x64 tn bf16"),
        ("triton_poi_fused__unsafe_view_gelu_mul_0", "triton gelu+mul"),
        ("triton_poi_fused_0", "triton pointwise"),
        ("triton_poi_fused_addmm_silu_2", "triton silu"),
        ("triton_poi_fused_convolution_3", "triton pointwise of convolution"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "nccl AllReduce bf16"),
        ("_topk_forward_kernel", "topk fwd"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert families.decode(name).short == short


GEMMK1 = (
    "void gemmk1_kernel<float, 256, 5, false, false, false, false, "
    "cublasGemvTensorStridedBatched<__half const>, cublasGemvTensorStridedBatched<__half const>, "
    "cublasGemvTensorStridedBatched<__half>, float>(cublasGemmk1Params<float>)"
)


def test_a_matmul_with_k_of_one_computes_in_float_on_half_inputs() -> None:
    fields = families.decode(GEMMK1).fields
    found = [fields[field] for field in ("dtype_in", "dtype_out", "dtype_acc")]
    assert found == ["f16", "f16", "f32"]


@pytest.mark.parametrize(
    "name",
    [
        "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        "sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4"
        "_warpsize2x2x1_g1_tensor16x8x8_execute_kernel_cudnn_infer",
        "cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_align4",
        "igemm_fwd_gtcx3_nchw_fp32_bx0_ex1_bt64x32x16_wt16x16x4_ws1x1_wr1x2_ta1x4x1x1_1x8x1x32"
        "_tb1x4x1x1_1x8x1x32",
    ],
)
def test_a_convolution_has_no_tokens(name: str) -> None:
    kernel = families.decode(name)
    assert kernel.role == "conv"
    assert {"tile", "tile_mn"} & set(kernel.fields)
    assert [part.meaning for part in kernel.parts if "token" in part.meaning] == []
    assert [part.meaning for part in kernel.parts if "the weight" in part.meaning] == []
