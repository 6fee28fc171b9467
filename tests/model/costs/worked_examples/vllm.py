"""Worked examples of `foretrace.model.costs.vllm`."""

from foretrace.model.costs import Cost
from foretrace.model.costs.vllm import HIDDEN

EXAMPLES = {
    "_C::fused_add_rms_norm(bf16[888,2880]*2 bf16[2880] ?)": Cost(
        None, 2 * (2 * 2_557_440 + 2880), 2 * 2 * 2_557_440
    ),
    "_C_cache_ops::reshape_and_cache_flash(bf16[888,1,64]*2 u8[4213816,16,1,64]*2 i64[888])": Cost(
        0, 2 * 113_664 + 7104, 2 * 56_832
    ),
    "vllm::moe_forward(bf16[888,3072] bf16[888,128] -)": Cost(None, None, None, HIDDEN),
    # rotary embedding gathers its table
    "_C::rotary_embedding(i64[888] bf16[888,512] bf16[888,64] ? bf16[131072,64] ?)": Cost(
        None, 888 * (8 + 2 * (512 + 64 + 64)), 888 * 2 * (512 + 64)
    ),
    "_C::silu_and_mul(bf16[8,4] bf16[8,8])": Cost(None, 2 * 64, 2 * 32),
    "_C::static_scaled_fp8_quant(f8[4,8] bf16[4,8] f32[])": Cost(32, 64 + 4, 32),
}
