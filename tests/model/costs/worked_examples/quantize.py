"""Worked examples of `foretrace.model.costs.quantize`."""

from foretrace.model.costs import Cost, Launch
from worked_examples import at_least

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
