"""Worked examples of `foretrace.model.costs.quantized`."""

from foretrace.model.costs import Cost

_FLOP = 2 * 32 * 64 * 128  # [32, 128] x [128, 64]

EXAMPLES = {
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
