"""The grammars, not the list: other names of the same families decode as well."""

from __future__ import annotations

from typing import Any

import pytest

from foretrace.names import families
from names.families.more_names import NAMES
from names.families.test_contract import check


def test_there_are_many() -> None:
    assert len(NAMES) >= 60


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=lambda value: str(value)[:50])
def test_a_name_of_the_grammar(name: str, expected: tuple[str, dict[str, Any]]) -> None:
    kernel = families.decode(name)
    check(kernel)
    family, fields = expected
    assert kernel.family == family
    assert {field: kernel.fields.get(field, "absent") for field in fields} == fields


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


def test_a_product_with_k_of_one_computes_in_float_on_half_inputs() -> None:
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
