"""Worked examples of `foretrace.work.costs.matmul`."""

from foretrace.work.costs import Cost, Launch
from worked_examples import at_least

_FLOP = 2 * 32 * 64 * 128  # [32, 128] x [128, 64]

EXAMPLES = {
    "aten::mm(bf16[8192,768]@768,1 bf16[768,3072]@1,768)": Cost(
        38_654_705_664, 17_301_504, 50_331_648
    ),
    "aten::addmm(f32[64] f32[1024,32] f32[32,64] =1 =1)": Cost(
        4_194_304, 4 * (64 + 32_768 + 2_048), 4 * 65_536
    ),
    "aten::bmm(f16[16,41,64] f16[16,64,41])": Cost(
        3_442_688, 2 * 2 * 16 * 41 * 64, 2 * 16 * 41 * 41
    ),
    "aten::_scaled_mm(f8[128,256] f8[256,512] f32[] f32[] - - =15 =True)": Cost(
        33_554_432, 128 * 256 + 256 * 512 + 8, 2 * 128 * 512
    ),
    "aten::dot(f32[1000]*2)": Cost(2000, 8000, 4),
    "aten::linear(f32[2,5,8] f32[16,8] f32[16])": Cost(2560, 4 * (80 + 128 + 16), 4 * 160),
    # a bias with beta 0 is not read
    "aten::addmm(f32[4,3] f32[4,5] f32[5,3] =0 =1)": Cost(120, 4 * (20 + 15), 4 * 12),
    # mm into a wider type
    "aten::mm(bf16[4,5] bf16[5,3] =6)": Cost(120, 70, 48),
    # matmul broadcasts its batch
    "aten::matmul(f32[2,1,4,5] f32[3,5,6])": Cost(1440, 520, 576),
    # addbmm sums its batch away
    "aten::addbmm(f32[4,6] f32[2,4,5] f32[2,5,6] =1 =1)": Cost(480, 4 * (24 + 40 + 60), 96),
    # fp4 packs two values in a byte
    "aten::_scaled_mm(c10::Float4_e2m1fn_x2[128,32] c10::Float4_e2m1fn_x2[32,64] f32[] f32[] - "
    "- =15 =False)": Cost(2 * 128 * 64 * 64, 128 * 32 + 32 * 64 + 8, 2 * 128 * 64),
    # grouped rows
    "aten::_grouped_mm(bf16[100,16] bf16[4,16,8] i32[4] - -)": Cost(
        2 * 100 * 16 * 8, 2 * (1600 + 512) + 16, 2 * 800
    ),
    # grouped depth
    "aten::_grouped_mm(bf16[16,100] bf16[100,8] i32[4] - -)": Cost(
        2 * 100 * 16 * 8, 2 * (1600 + 800) + 16, 2 * 4 * 128
    ),
    "_C::static_scaled_fp8_quant(f8[4,8] bf16[4,8] f32[])": Cost(32, 64 + 4, 32),
    "_C::dynamic_per_token_scaled_fp8_quant(f8[4,8] bf16[4,8] f32[4,1] -)": Cost(32, 64, 32 + 16),
    "_C::dynamic_scaled_int8_quant(i8[4,8] bf16[4,8] f32[4,1] i32[4,1])": Cost(32, 64, 32 + 32),
    "_C::per_token_group_fp8_quant(bf16[4,256] f8[4,256] f32[4,2] =128)": Cost(
        1024, 2048, 1024 + 32
    ),
    "_C::scaled_fp4_quant(u8[4,32] bf16[4,64] i32[128,1] f32[1])": Cost(256, 512 + 4, 128 + 512),
    "_C::scaled_fp4_quant(bf16[4,64] f32[1] =True)": Cost(256, 512 + 4, 128 + 16),
    "_C::rms_norm_static_fp8_quant(f8[4,8] bf16[4,8] bf16[8] f32[1] ?)": Cost(
        None, 64 + 16 + 4, 32
    ),
    "_C::fused_add_rms_norm_static_fp8_quant(f8[4,8] bf16[4,8]*2 bf16[8] f32[1] ?)": Cost(
        None, 2 * 64 + 16 + 4, 32 + 64
    ),
    "_C::rms_norm_dynamic_per_token_quant(f8[4,8] bf16[4,8] bf16[8] f32[4,1] ? - bf16[4,8])": Cost(
        None, 2 * 64 + 16, 32 + 16 + 64
    ),
    "_C::silu_and_mul_quant(f8[4,8] bf16[4,16] f32[1])": Cost(None, 128 + 4, 32),
    "_C::silu_and_mul_per_block_quant(f8[4,8] bf16[4,16] f32[4,1] =8)": Cost(None, 128, 32 + 16),
    "_C::cutlass_scaled_mm(bf16[32,64] f8[32,128] f8[128,64] f32[32,1] f32[64] bf16[64])": Cost(
        _FLOP, 4096 + 8192 + 128 + 256 + 128, 4096
    ),
    # two values to a byte, a scale for each 16
    "_C::cutlass_scaled_fp4_mm(bf16[32,64] u8[32,64] u8[64,64] f8[32,8] f8[64,8] f32[1])": Cost(
        _FLOP, 2048 + 4096 + 256 + 512 + 4, 4096
    ),
    "sgl_kernel::fp8_scaled_mm(f8[32,128] f8[128,64] f32[32,1] f32[64,1] =5 -)": Cost(
        _FLOP, 4096 + 8192 + 128 + 256, 4096
    ),
    "aiter::gemm_a8w8_bpreshuffle_ck(f8[32,128] f8[64,128] f32[32,1] f32[64,1] f16[32,64])": Cost(
        _FLOP, 4096 + 8192 + 128 + 256, 4096
    ),
    "vllm::rocm_aiter_gemm_a8w8_blockscale(f8[32,128] f8[64,128] f32[32,1] f32[1,1] =15)": Cost(
        _FLOP, 4096 + 8192 + 128 + 4, 4096
    ),
    "_rocm_C::wvSplitK(bf16[64,128] bf16[32,128] - =304)": Cost(_FLOP, 2 * (64 + 32) * 128, 4096),
    # 4 bits: [K / 16, N * 2] integers
    "_C::gptq_marlin_gemm(bf16[32,128] - i32[8,128] - bf16[1,64])": Cost(
        _FLOP, 8192 + 4096 + 128, 4096
    ),
    "_C::marlin_gemm(bf16[32,128] - i32[8,256] bf16[64] bf16[1,64])": Cost(
        _FLOP, 8192 + 8192 + 128, 4096
    ),
    "_C::machete_mm(bf16[32,128] i32[16,64] =9 - bf16[1,64] - =128 - - -)": Cost(
        _FLOP, 8192 + 4096 + 128, 4096
    ),
    "_C::awq_gemm(f16[32,128] i32[128,8] f16[1,64] i32[1,8] =8)": Cost(
        _FLOP, 8192 + 4096 + 128 + 32, 4096
    ),
    "_C::gptq_gemm(f16[32,128] i32[16,64] i32[1,8] f16[1,64] i32[128] =True =False =4)": Cost(
        _FLOP, 8192 + 4096 + 128 + 32 + 512, 4096
    ),
}

SPLIT = {
    "aten::mm(bf16[2048,32000] bf16[32000,768])": {
        Launch("nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_splitK_NNN", "gemm"): at_least(
            100_663_296_000,
            131_072_000 + 49_152_000,
            3_145_728,
            "reads the operands, writes the result once",
        ),
        Launch(
            "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>", "reduction"
        ): at_least(None, 3_145_728, 3_145_728, "reads one partial result, writes the result"),
    },
    "aten::addmm(f32[128] f32[5,128] f32[128,128] ? ?)": {
        Launch("elementwise_kernel<128, 2, direct_copy_kernel_cuda>", "copy"): at_least(
            None, 512, 2560, "reads the bias, copies it into the result"
        ),
        Launch("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32", "gemm"): at_least(
            163_840, 2560 + 65_536 + 2560, 2560, "reads the operands, writes the result once"
        ),
    },
    "aten::addmm(f32[160] f32[2048,32] f32[32,160] ? ?)": {
        Launch("ampere_sgemm_32x128_tn", "gemm"): at_least(
            20_971_520, 4 * (65_536 + 5120), 1_310_720, "reads the operands, writes the result once"
        ),
        Launch(
            "void epilogue::impl::globalKernel<float, float, float, true, true>", "pointwise"
        ): at_least(
            None, 1_310_720 + 640, 1_310_720, "reads the result and the bias, writes the result"
        ),
    },
    "_C::dynamic_scaled_fp8_quant(f8[4,8] bf16[4,8] f32[1])": {
        Launch("vllm::segmented_max_reduction_strided<c10::BFloat16>"): at_least(
            None, 64, 0, "reads the input for its largest value"
        ),
        Launch("vllm::scaled_fp8_quant_kernel_strided_dynamic<c10::BFloat16>"): at_least(
            None, 64, 32, "reads the input, writes the result"
        ),
    },
}
