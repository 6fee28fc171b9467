"""Worked examples of `foretrace.model.costs.routing`."""

from foretrace.model.costs import Cost, Launch
from foretrace.model.costs.routing import SORTED
from worked_examples import at_least

EXAMPLES = {
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
    "SortTokens(bf16[32,4] i16[32,4] =32)": {
        Launch("_sum_bitmatrix_rows"): at_least(None, 128, 128, "reads the mask, writes counts"),
        Launch("_combined_routing_memset"): at_least(
            None, 0, 512, "writes the places of the choices once"
        ),
        Launch("_combined_routing_compute"): at_least(None, 512, 256 + 2 * 512, SORTED),
    },
}
