"""Worked examples of `foretrace.model.costs.vllm`."""

from foretrace.model.costs import Cost
from worked_examples import at_least

EXAMPLES = {
    "_C::fused_add_rms_norm(bf16[888,2880]*2 bf16[2880] ?)": Cost(
        None, 2 * (2 * 2_557_440 + 2880), 2 * 2 * 2_557_440
    ),
    "_C_cache_ops::reshape_and_cache_flash(bf16[888,1,64]*2 u8[4213816,16,1,64]*2 i64[888])": Cost(
        0, 2 * 113_664 + 7104, 2 * 56_832
    ),
    # rotary embedding gathers its table
    "_C::rotary_embedding(i64[888] bf16[888,512] bf16[888,64] ? bf16[131072,64] ?)": Cost(
        None, 888 * (8 + 2 * (512 + 64 + 64)), 888 * 2 * (512 + 64)
    ),
    "_C::silu_and_mul(bf16[8,4] bf16[8,8])": Cost(None, 2 * 64, 2 * 32),
    # one row of 512 + 64 values per new token, whatever the size of the cache
    "_C_cache_ops::concat_and_cache_mla(bf16[4,512] bf16[4,64] bf16[90000,64,576] i64[4])": Cost(
        0, 2 * 4 * 576 + 32, 2 * 4 * 576
    ),
    # 8 query and 2 key heads turn, 2 value heads stay
    "_C::fused_qk_norm_rope(bf16[4,192] =8 =2 =2 =16 =1e-6 bf16[16]*2 bf16[99,16] =True i64[4])": (
        Cost(None, 2 * (4 * 160 + 4 * 16 + 32) + 32, 2 * 4 * 160)
    ),
    "_C::merge_attn_states(bf16[4,8,16] f32[8,4] bf16[4,8,16] f32[8,4] bf16[4,8,16] f32[8,4])": (
        Cost(None, 2 * (1024 + 128), 1024 + 128)
    ),
    "_C::apply_repetition_penalties_(f32[2,50] bool[2,50]*2 f32[2])": at_least(
        None, 400 + 200 + 8, 0, "scores that a penalty changes are written too"
    ),
}
