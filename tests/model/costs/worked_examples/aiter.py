"""Worked examples of `foretrace.model.costs.aiter`, with the bytes that TraceLens counts for them."""

from foretrace.model.costs import Cost

EXAMPLES = {
    "aiter::silu_and_mul(bf16[4,8] bf16[4,16])": Cost(None, 128, 64),
    "aiter::gemm_a16w16(bf16[32,4096] bf16[24576,4096] - ? - - -)": Cost(
        6_442_450_944, 2 * 4096 * (32 + 24_576), 2 * 32 * 24_576
    ),
    "vllm::rocm_unquantized_gemm(bf16[32,2880] bf16[5120,2880] bf16[5120])": Cost(
        943_718_400, 2 * (32 * 2880 + 5120 * 2880 + 5120), 2 * 32 * 5120
    ),
    "aiter::rmsnorm(bf16[256,128]*2 bf16[128] ?)": Cost(None, 2 * (32_768 + 128), 65_536),
    "aiter::rms_norm(bf16[32,2880] bf16[2880] ? ?)": Cost(None, 2 * (92_160 + 2880), 184_320),
    "aiter::add_rmsnorm(bf16[32,4096]*4 bf16[4096] ?)": Cost(
        None, 2 * (2 * 131_072 + 4096), 4 * 131_072
    ),
}
