"""Names of the same grammars that are not on the reference list, each with what it states. Written
from the grammars.
"""

from __future__ import annotations

from typing import Any

ATEN = "void at::native::"
COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
    "const::{lambda()#7}"
)
LAMBDA = "::{lambda()#1}::operator()() const::{lambda()#2}::operator()() const::"

NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    # cuBLAS by generation
    "ampere_fp16_s16816gemm_fp16_256x64_sliced1x2_ldg8_relu_f2f_stages_64x4_nt": (
        "cublas_legacy",
        {
            "tile": [256, 64, 64],
            "stages": 4,
            "sliced": "1x2",
            "layout": "nt",
            "epilogue": ["relu-capable"],
            "dtype_in": "f16",
        },
    ),
    "turing_h1688gemm_128x128_ldg8_relu_stages_32x1_nt": (
        "cublas_legacy",
        {"dtype_acc": "f16", "dtype_out": "f16", "mma": [16, 8, 8], "arch": "sm75"},
    ),
    "ampere_s16816gemm_fp16_128x128_ldg8_relu_stages_32x5_tn": (
        "cublas_legacy",
        {"dtype_in": "f16", "dtype_out": "f32", "dtype_acc": "f32", "tile_k": 32, "stages": 5},
    ),
    "volta_dgemm_128x64_nt": (
        "cublas_legacy",
        {"dtype_in": "f64", "tensor_core": False, "tile_mn": [128, 64]},
    ),
    "volta_zgemm_32x32_cn": ("cublas_legacy", {"dtype_in": "c128", "layout": "cn"}),
    "ampere_i16832gemm_int8_128x128_ldg16_stages_64x3_tn": (
        "cublas_legacy",
        {"dtype_in": "i8", "dtype_acc": "i32", "dtype_out": "i32", "mma": [16, 8, 32], "ldg": 16},
    ),
    "maxwell_sgemm_128x64_tn": ("cublas_legacy", {"arch_word": "maxwell", "tensor_core": False}),
    "volta_sgemm_32x128_tn_v1": ("cublas_legacy", {"layout": "tn"}),
    # nvjet
    "nvjet_hsh_192x128_64x5_1x2_h_bz_coopB_relubias_TNT": (
        "nvjet",
        {"epilogue": ["relu", "bias"], "coop": "B", "dtype_in": "f16", "tile": [192, 128, 64]},
    ),
    "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_splitK_TNT": (
        "nvjet",
        {"splitk": True, "tile": [64, 8, 64], "raster": "v"},
    ),
    "nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_NNT": (
        "nvjet",
        {"batch_mode": "badd", "layout": "nn"},
    ),
    "nvjet_sm90_sss_tf32_128x128_32x6_2x1_v_bz_TNT": (
        "nvjet",
        {"types": "sss", "math_dtype": "tf32", "tile": [128, 128, 32]},
    ),
    "nvjet_sm90_qrtst_128x128_128x6_2x1_v_bz_TNT": (
        "nvjet",
        {"dtype_a": "e4m3", "dtype_b": "e5m2", "dtype_out": "bf16"},
    ),
    "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_biast_relu_NTN": (
        "nvjet",
        {"epilogue": ["bias", "relu"], "layout": "nt", "mma_m_along": "n (second tile number)"},
    ),
    "nvjet_sm100_tst_128x256_64x6_2x2_2cta_h_bz_geluauxbias_auxt_TNT": (
        "nvjet",
        {"epilogue": ["gelu", "aux", "bias", "aux"], "two_cta": True, "arch": "sm100"},
    ),
    "nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN": (
        "nvjet",
        {
            "tile": [64, 64, 128],
            "stages": 3,
            "warp_tile": [32, 32, 128],
            "layout": "tn",
            "layout_raw": "TNNN",
        },
    ),
    "nvjet_bsb_128x128_128x6_2x1_v_bz_TNT": ("nvjet", {"dtype_in": "i8", "dtype_out": "i8"}),
    # CUTLASS
    "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8": (
        "cutlass2x",
        {
            "opclass": "wmma_tensorop",
            "mma": [16, 16, 16],
            "tile": [32, 32, 32],
            "stages": 1,
            "lib": "cublas",
        },
    ),
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688bf16gemm_128x128_16x5_tn_align4>(T1::Params)": (
        "cutlass2x",
        {"math_dtype": "bf16", "dtype_in": "f32", "dtype_out": "f32"},
    ),
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_128x128_32x4_nhwc_align8>(P)": (
        "cutlass2x",
        {"op": "conv_fprop", "lib": "cudnn", "namespace": "cutlass__5x_cudnn", "dtype_in": "bf16"},
    ),
    "cutlass_75_tensorop_f16_s1688gemm_f16_256x128_nt_align8": (
        "cutlass2x",
        {"arch": "sm75", "tile_mn": [256, 128]},
    ),
    "cutlass_80_tensorop_s8_i16832gemm_s8_256x128_64x3_tn_align16": (
        "cutlass2x",
        {"dtype_in": "i8", "dtype_out": "i8", "dtype_acc": "i32"},
    ),
    "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_void_f16_128x128x64_2x1x1_0_nnn_align8_stream_k"
    "_warpspecialized_cooperative_epi_tma": (
        "cutlass3x",
        {
            "mma": [64, 128, 16],
            "dtype_c": "void",
            "schedule": ["stream_k", "warpspecialized_cooperative", "epi_tma"],
        },
    ),
    "cutlass3x_sm100_tensorop_s128x64x8tf32gemm_f32_f32_f32_f32_f32_128x64x32_0_tnn_align4_2sm": (
        "cutlass3x",
        {"math_dtype": "tf32", "stages": "auto", "schedule": ["2sm"], "tile": [128, 64, 32]},
    ),
    # xmma
    "sm80_xmma_gemm_i8i32_i8i32_i32_tn_n_tilesize128x128x64_stage4_warpsize2x2x1_tensor16x8x32_execute_kernel__5x_cublas": (
        "xmma",
        {
            "dtype_in": "i8",
            "dtype_out": "i32",
            "math_dtype": "i8",
            "dtype_acc": "i32",
            "splitk": False,
        },
    ),
    "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32_cgasize2x1x1_warpgroupsize1x1x1_execute_segment_k_off"
    "_kernel__5x_cublas": (
        "xmma",
        {"math_dtype": "tf32", "cluster": [2, 1, 1], "tensor_core": True, "layout": "nt"},
    ),
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_stage5_warpsize2x2x1_g1"
    "_tensor16x8x8_t1r1s1_execute_kernel_cudnn_train": (
        "xmma",
        {"tokens": "t1r1s1", "op": "conv_wgrad", "lib": "cudnn"},
    ),
    # cuBLAS helpers
    "void gemv2N_kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 8, 4, "
    "4, 1, false, P>(P)": (
        "cublas_gemv",
        {"transposed": False, "dtype_in": "bf16", "dtype_acc": "f32"},
    ),
    "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 8, 9, false, P>(P)": (
        "cublas_gemv",
        {"layout": "tn", "dtype_in": "f32"},
    ),
    "void splitKreduce_kernel<32, 16, int, float, __half, float, __half, true, true, "
    "false>(cublasSplitKParams<float>, "
    "float const*, __half const*, __half*, float const*)": (
        "cublas_aux",
        {"dtype_out": "f16", "lib": "cublas"},
    ),
    # cuDNN
    "cudnn_generated_oss_sdpa_sm100_flash_fprop_f16_knob_7_128x128x64_4x1x1_cga1x1x1_kernel0_0": (
        "cudnn_sdpa",
        {"generator": "oss", "tile": [128, 128, 64], "warps": [4, 1, 1], "cluster": [1, 1, 1]},
    ),
    "cudnn_infer_volta_scudnn_128x128_stridedB_small_nn_v1": (
        "cudnn_conv_legacy",
        {"op": "conv_dgrad"},
    ),
    "void cudnn::bn_fw_inf_1C11_kernel_NCHW<__half, float, true, 1>(float)": (
        "cudnn_batchnorm",
        {"op": "batch_norm_fwd", "dtype_in": "f16"},
    ),
    "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*)": (
        "cudnn_conv_legacy",
        {"stage": "r2c"},
    ),
    # ATen
    f"{ATEN}vectorized_elementwise_kernel<4, at::native::(anonymous "
    "namespace)::leaky_relu_kernel(at::TensorIteratorBase&)"
    f"{LAMBDA}{{lambda(c10::Half)#1}}, std::array<char*, 2ul> >(int)": (
        "aten_elementwise",
        {"op": "aten::leaky_relu", "dtype": "f16", "vec": 4, "functor": "leaky_relu_kernel"},
    ),
    f"{ATEN}vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, bool, "
    "at::native::(anonymous namespace)"
    "::CompareFunctor<float> >, std::array<char*, 3ul> >(int)": (
        "aten_elementwise",
        {"dtype": "f32", "dtype_out": "bool"},
    ),
    f"{ATEN}unrolled_elementwise_kernel<{COPY}::operator()() const::{{lambda(c10::Half)#1}}, "
    "std::array<char*, 2ul>, 4, "
    "TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, "
    "at::native::memory::LoadWithCast<1>,"
    " at::native::memory::StoreWithCast<1> >(int)": (
        "aten_elementwise",
        {"dst_dtype": "f16", "cast": True, "contiguous": True},
    ),
    f"{ATEN}elementwise_kernel<128, 2, "
    "at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> >(at::Tensor"
    "IteratorBase&)::{lambda(int)#1}>(int)": (
        "aten_elementwise",
        {"contiguous": False, "cast": False, "per_thread": 2, "op": "aten::add", "dtype": "f32"},
    ),
    f"{ATEN}vectorized_elementwise_kernel<4, "
    f"at::native::float16_copy_kernel_cuda(at::TensorIteratorBase&)::{{lambda(float)#1}}"
    ", std::array<char*, 2ul> >(int)": (
        "aten_elementwise",
        {"src_dtype": "f32", "dst_dtype": "f16"},
    ),
    f"{ATEN}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "at::native::MaxNanFunctor<"
    "float> >, unsigned int, float, 4, 4> >(P)": (
        "aten_reduce",
        {"op": "aten::max", "dtype_in": "f32", "max_threads": 512},
    ),
    f"{ATEN}reduce_kernel<512, 1, at::native::ReduceOp<bool, at::native::func_wrapper_t<bool, "
    "at::native::or_kernel_cuda("
    "at::TensorIterator&)::{lambda(bool, bool)#1}>, unsigned int, bool, 4> >(P)": (
        "aten_reduce",
        {"op": "aten::any"},
    ),
    f"{ATEN}(anonymous namespace)::cunn_SoftMaxForwardSmem<8, c10::Half, float, c10::Half, "
    "at::native::(anonymous namespace)::"
    "LogSoftMaxForwardEpilogue, long>(P)": (
        "aten_softmax",
        {"op": "aten::_log_softmax", "vec": 8, "dtype_in": "f16"},
    ),
    f"{ATEN}(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float, "
    "true>(P)": (
        "aten_norm",
        {"op": "aten::_fused_rms_norm_backward", "rms_norm": True},
    ),
    f"{ATEN}(anonymous namespace)::CatArrayBatchedCopy_contig<at::native::(anonymous "
    "namespace)::OpaqueType<2u>, unsigned int,"
    " 2, 128, 1>(P)": ("aten_index_cat", {"element_bytes": 2, "dims": 2}),
    f"{ATEN}<unnamed>::indexSelectLargeIndex<float, long, unsigned int, (int)2, (int)2, (int)-2, "
    "(bool)1>(P)": (
        "aten_index_cat",
        {"dtype": "f32", "index_dtype": "i64"},
    ),
    f"{ATEN}(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<2>, "
    "at::native::(anonymous namespace)::UnaryOpFunctor<float, 2, 1, 1>, at::native::Sqrt<float> "
    ">(P)": (
        "aten_multi_tensor",
        {"op": "aten::_foreach_sqrt", "lists": 2, "dtype": "f32"},
    ),
    # Inductor
    "triton_poi_fused_add_mul_sub_where_5": (
        "inductor_triton",
        {"ops": ["add", "mul", "sub", "where"], "suffix": 5},
    ),
    "triton_red_fused__log_softmax_backward_data__to_copy_add_embedding_dense_backward_sum_11": (
        "inductor_triton",
        {
            "ops": [
                "_log_softmax_backward_data",
                "_to_copy",
                "add",
                "embedding_dense_backward",
                "sum",
            ]
        },
    ),
    "triton_per_fused_clamp_max_pool2d_with_indices_1": (
        "inductor_triton",
        {"ops": ["clamp", "max_pool2d_with_indices"], "category": "persistent_reduction"},
    ),
    "triton_tem_fused__to_copy_addmm_gelu_t_view_9": (
        "inductor_triton",
        {"ops": ["_to_copy", "addmm", "gelu", "t", "view"]},
    ),
    "triton_spl_fused_cumsum_0": ("inductor_triton", {"ops": ["cumsum"]}),
    "triton_poi_fused_mul_my_new_op_2": ("inductor_triton", {"ops": ["mul", "my_new_op"]}),
    "graph_3_cpp_fused_native_layer_norm_12": (
        "inductor_cpp",
        {"graph": 3, "ops": ["native_layer_norm"], "suffix": 12},
    ),
    # attention
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::half_t, P>, false, true, "
    "false, false, true, true, false, false>(flash::Flash_fwd_params)": (
        "flash_attention_2",
        {
            "head_dim": 128,
            "block_n": 64,
            "causal": True,
            "softcap": False,
            "return_softmax": False,
            "dtype_in": "f16",
        },
    ),
    "fmha_cutlassB_bf16_aligned_128x64_k128_dropout_seqaligned_sm80": (
        "mem_efficient_attention",
        {"block_i": 128, "block_j": 64, "max_head_dim": 128, "dropout": True, "seqaligned": True},
    ),
    # collectives
    "ncclDevKernel_ReduceScatter_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
        "nccl",
        {"coll": "ReduceScatter", "dtype": "f16", "name_redop": "Sum"},
    ),
    "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
        "nccl",
        {"coll": "Broadcast", "name_proto": "LL"},
    ),
    "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16": (
        "nccl",
        {"algo": "RSxLDMC_AGxSTMC", "redop": "sum", "dtype": "bf16", "symmetric_memory": True},
    ),
    # AMD
    "Cijk_Ailk_Bjlk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0_GSU4_GSUASB_ISA90a_WG64_4_1": (
        "rocm_tensile",
        {
            "layout": "nt",
            "dtype_in": "f16",
            "mfma": [32, 32, 8, 1],
            "global_split_u": 4,
            "arch": "gfx90a",
        },
    ),
    "Cijk_Alik_Bljk_DB_MT64x64x16_MI16x16x4x1_SN_ISA942_WG16_16_1": (
        "rocm_tensile",
        {"dtype_in": "f64", "dtype_out": "f64", "use_beta": True, "high_precision_acc": False},
    ),
    "igemm_fwd_gtcx3_nchw_fp32_bx0_ex1_bt64x32x16_wt16x16x4_ws1x1_wr1x2_ta1x4x1x1_1x8x1x32_tb1x4x1x1_1x8x1x32": (
        "miopen_igemm",
        {"dtype_in": "f32", "layout": "nchw", "splitk": False, "wave_repeat": [1, 2]},
    ),
    "batched_transpose_16x16_dword": ("miopen", {"tile": [16, 16], "element_bytes": 4}),
    # the rest
    "_swiglu_backward_kernel": ("liger_triton", {"lib": "Liger-Kernel"}),
    "void vllm::fused_add_rms_norm_kernel<c10::Half, 8>(P)": (
        "vllm_cuda",
        {"op": "add + rms_norm", "dtype": "f16"},
    ),
    "Memcpy HtoD (Host -> Device)": (
        "memcpy_memset",
        {"src": "Host", "dst": "Device", "kind": "HtoD"},
    ),
    "cudaLaunchKernelExC": ("runtime_api", {"role": "launch"}),
    "cuLaunchKernelEx": ("driver_api", {"role": "launch", "cat": "cuda_driver"}),
    "hipStreamSynchronize": ("runtime_api", {"role": "sync"}),
}
