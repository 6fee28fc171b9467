"""Worked examples of `foretrace.model.costs.sglang`."""

from foretrace.model.costs import Cost
from worked_examples import at_least

EXAMPLES = {
    "sgl_kernel::top_p_sampling_from_probs(f32[4,1000] i32[4] - - =0.9)": at_least(
        None, 16_000, 16, "the scores once; picking takes more passes"
    ),
    "sgl_kernel::fused_add_rmsnorm(bf16[4,8]*2 bf16[8] ?)": Cost(None, 2 * 64 + 16, 2 * 64),
    "sgl_kernel::silu_and_mul(bf16[32,12288] bf16[32,24576])": Cost(
        None, 2 * 32 * 24_576, 2 * 32 * 12_288
    ),
    "sgl_kernel::rmsnorm(bf16[256,128]*2 bf16[128] ? -)": Cost(None, 2 * (32_768 + 128), 65_536),
    "sgl_kernel::rotary_embedding(i64[32] bf16[32,4096] bf16[32,1024] ? bf16[41216,128] ?)": Cost(
        None, 32 * (8 + 2 * (4096 + 1024 + 128)), 32 * 2 * (4096 + 1024)
    ),
    # of a cache of 1.7 GB it writes the new tokens
    "sglang::store_cache(bf16[32,1024]*2 bf16[835874,1024]*2 i64[32] ? ?)": Cost(
        0, 2 * 65_536 + 256, 2 * 65_536
    ),
}
