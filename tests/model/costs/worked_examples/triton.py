"""Worked examples of `foretrace.model.costs.triton`."""

from foretrace.model.costs import Certainty, Cost
from foretrace.model.costs.triton import NOTE

EXAMPLES = {
    "triton_poi_fused__unsafe_view_gelu_mul_0(bf16[64,128,3072] bf16[8192,3072] =25165824)": Cost(
        None, None, None, NOTE, Certainty.AT_LEAST, 100_663_296
    ),
    "triton_poi_fused_clone_split_2(bf16[2048,2304] bf16[2048,768] =1572864)": Cost(
        None, None, None, NOTE, Certainty.ESTIMATE, 2 * 3_145_728
    ),
    "triton_red_fused_add_mean_pow_1(bf16[2048,768] bf16[768] f32[2048] =2048 =768)": Cost(
        None, None, None, NOTE, Certainty.AT_LEAST, 3_145_728 + 1536 + 8192
    ),
    "triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt_0(i64[4,512] bf16[32000,768] "
    "bf16[768] bf16[4,512,768] =2048 =768)": Cost(
        None, None, None, NOTE, Certainty.ESTIMATE, 16_384 + 2 * 3_145_728 + 1536
    ),
}
