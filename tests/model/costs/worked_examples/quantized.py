"""Worked examples of `foretrace.model.costs.matmul`."""

from foretrace.model.costs import Cost, Launch
from worked_examples import at_least

_FLOP = 2 * 32 * 64 * 128  # [32, 128] x [128, 64]

EXAMPLES = {
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
    "_C::dynamic_scaled_fp8_quant(f8[4,8] bf16[4,8] f32[1])": {
        Launch("vllm::segmented_max_reduction_strided<c10::BFloat16>"): at_least(
            None, 64, 0, "reads the input for its largest value"
        ),
        Launch("vllm::scaled_fp8_quant_kernel_strided_dynamic<c10::BFloat16>"): at_least(
            None, 64, 32, "reads the input, writes the result"
        ),
    },
}
