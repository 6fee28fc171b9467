"""Worked examples of `foretrace.work.costs.libraries`."""

from foretrace.work.costs import Certainty, Cost, Launch
from foretrace.work.costs.libraries import HIDDEN_WEIGHTS, SORTED
from worked_examples import at_least

# gpt-oss: 32 tokens, 4 of 32 experts, 3072 columns in. 38 row tiles of 16 are launched; 912 blocks
# make 24 tiles of 128 columns, and 1748 blocks make 46.
_MOE = "vllm::moe_forward(bf16[32,3072] bf16[32,32] - -)"
_OGS = "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1"
_SHARE = 32 * (1 - (28 / 32) ** 32)  # experts that even choices reach
_FIRST, _LAST = 3072 * 46 * 128, 46 * 64 * 3072  # weights of one expert
_RANGE = "weights of 31.6 experts, as even choices reach; 4 to 32 are possible"


def _estimate(flops: int, read: float, written: int, least: float, note: str = _RANGE) -> Cost:
    return Cost(flops, round(read), written, note, Certainty.ESTIMATE, least=round(least))


EXAMPLES = {
    _MOE: Cost(None, None, None, HIDDEN_WEIGHTS),
    # 4 tokens choose 2 of 8 experts: 8 * (1 - 0.75 ** 4) of them are read
    "vllm::fused_experts(bf16[4,16] bf16[8,64,16] bf16[8,16,32] f32[4,2] i32[4,2] =silu)": Cost(
        2 * 8 * 16 * (64 + 32),
        128 + 64 + round(8 * (1 - 0.75**4) * 2 * 16 * 96),
        128,
        "weights of 5.5 experts, as even choices reach; 2 to 8 are possible",
        Certainty.ESTIMATE,
        matmuls=2,
        least=128 + 64 + 128 + 2 * 2 * 16 * 96,
    ),
    "_moe_C::topk_softmax(f32[32,4] i32[32,4]*2 bf16[32,64] =True)": Cost(
        None, 2 * 32 * 64, 3 * 4 * 128
    ),
    "_moe_C::moe_align_block_size(i32[32,4] =64 =16 i32[4096] i32[256] i32[1])": at_least(
        None, 512, 512, SORTED
    ),
    "_moe_C::moe_sum(bf16[32,4,8] bf16[32,8])": Cost(768, 2 * 1024, 2 * 256),
    "_moe_C::moe_permute(bf16[32,8] i32[32,4] i32[32,4])": at_least(
        None, 512 + 512, 2 * 128 * 8, "a row for each choice; the sorting is not counted"
    ),
    "_moe_C::moe_unpermute(bf16[128,8] f32[32,4] i32[128] - =4 bf16[32,8])": Cost(
        None, 2048 + 512 + 512, 512
    ),
    "_moe_C::shuffle_rows(f8[32,8] i32[128] f8[128,8])": Cost(None, 1024 + 512, 1024),
    # values, 16-bit places and a word of bits per token
    "TopK(bf16[32,32] =4 =True =1 =True - -)": Cost(None, 2048, 2 * 128 + 2 * 128 + 4 * 32),
    "SortTokens(bf16[32,4] i16[32,4] =32)": at_least(None, 512, 256 + 2 * 512, SORTED),
}

SPLIT = {
    _MOE: {
        Launch(f"{_OGS}_swiglu", "gemm", 1748): _estimate(
            2 * 128 * _FIRST,
            2 * 32 * 3072 + _SHARE * _FIRST * 17 / 32,
            2 * 128 * 2944,
            2 * 32 * 3072 + 2 * 128 * 2944 + 4 * _FIRST * 17 / 32,
        ),
        Launch(_OGS, "gemm", 912): _estimate(
            2 * 128 * _LAST,
            2 * 128 * 2944 + _SHARE * _LAST * 17 / 32,
            2 * 128 * 3072,
            2 * 128 * 2944 + 2 * 128 * 3072 + 4 * _LAST * 17 / 32,
        ),
        Launch("_finalize_matmul_scatter_bf16", "", 64): at_least(
            None, 2 * 128 * 3072, 2 * 32 * 3072, "reads a row for each choice, writes their sums"
        ),
    },
    "vllm::fused_experts(bf16[4,16] bf16[8,64,16] bf16[8,16,32] f32[4,2] i32[4,2] =silu)": {
        Launch("fused_moe_kernel", "gemm", 9): _estimate(
            2 * 8 * 64 * 16,
            128 + 8 * (1 - 0.75**4) * 2 * 64 * 16,
            2 * 8 * 64,
            128 + 2 * 8 * 64 + 2 * 2 * 64 * 16,
            "weights of 5.5 experts, as even choices reach; 2 to 8 are possible",
        ),
        Launch("fused_moe_kernel", "gemm", 8): _estimate(
            2 * 8 * 32 * 16,
            2 * 8 * 32 + 8 * (1 - 0.75**4) * 2 * 32 * 16,
            2 * 8 * 16,
            2 * 8 * 32 + 2 * 8 * 16 + 2 * 2 * 32 * 16,
            "weights of 5.5 experts, as even choices reach; 2 to 8 are possible",
        ),
        Launch("moe_sum_kernel", ""): at_least(
            None, 2 * 8 * 16, 128, "reads a row for each choice, writes their sums"
        ),
    },
    "SortTokens(bf16[32,4] i16[32,4] =32)": {
        Launch("_sum_bitmatrix_rows"): at_least(None, 128, 128, "reads the mask, writes counts"),
        Launch("_combined_routing_memset"): at_least(
            None, 0, 512, "writes the places of the choices once"
        ),
        Launch("_combined_routing_compute"): at_least(None, 512, 256 + 2 * 512, SORTED),
    },
}
