"""Worked examples of `foretrace.model.costs.triton`."""

from foretrace.model.costs import Certainty, Cost
from foretrace.model.costs.triton import NOTE

EXAMPLES = {
    "triton_poi_fused__unsafe_view_gelu_mul_0(bf16[64,128,3072] bf16[8192,3072] =25165824)": Cost(
        None, None, None, NOTE, Certainty.ESTIMATE, 100_663_296
    ),
    "triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt_0(i64[4,512] bf16[32000,768] "
    "bf16[768] bf16[4,512,768] =2048 =768)": Cost(
        None, None, None, NOTE, Certainty.ESTIMATE, 16_384 + 2 * 3_145_728 + 1536
    ),
}
