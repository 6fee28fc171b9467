"""Worked examples of `foretrace.model.costs.libraries`."""

from foretrace.model.costs import Certainty, Cost
from foretrace.model.costs.libraries import GATED, IN_PART, NOTE
from worked_examples import at_least

EXAMPLES = {
    "triton_poi_fused__unsafe_view_gelu_mul_0(bf16[64,128,3072] bf16[8192,3072] =25165824)": Cost(
        None, 100_663_296, 50_331_648, GATED, Certainty.ESTIMATE, least=100_663_296
    ),
    # three arguments: the result has its own
    "triton_poi_fused_mul_silu_0(bf16[8,64] bf16[8,64] bf16[8,64] =512)": Cost(
        None, None, None, NOTE, Certainty.AT_LEAST, 3 * 1024
    ),
    "triton_poi_fused_clone_split_2(bf16[2048,2304] bf16[2048,768] =1572864)": Cost(
        None, None, None, NOTE, Certainty.ESTIMATE, 2 * 3_145_728
    ),
    "triton_red_fused_add_mean_pow_1(bf16[2048,768] bf16[768] f32[2048] =2048 =768)": Cost(
        None, None, None, NOTE, Certainty.AT_LEAST, 3_145_728 + 1536 + 8192
    ),
    # of the numbers the last are the sizes, as many as a tensor has
    "triton_poi_fused_add_ge_lt_0(i32[888] i64[888] =0 =25136 =888)": Cost(
        None, None, None, NOTE, Certainty.AT_LEAST, 12 * 888
    ),
    "triton_poi_fused_add_1(bf16[64,768] bf16[768] bf16[64,768] =64 =768)": Cost(
        None, None, None, NOTE, Certainty.AT_LEAST, 2 * (2 * 49_152 + 768)
    ),
    "triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt_0(i64[4,512] bf16[32000,768] "
    "bf16[768] bf16[4,512,768] =2048 =768)": Cost(
        None, None, None, NOTE, Certainty.ESTIMATE, 16_384 + 2 * 3_145_728 + 1536
    ),
    # a matmul from a template: the weight is [N, K]
    "triton_tem_fused_addmm_t_0(bf16[4096] bf16[8192,1024] bf16[4096,1024] bf16[8192,4096] =2048 =1 "
    "=1)": at_least(
        2 * 8192 * 4096 * 1024, 2 * (4096 + 8_388_608 + 4_194_304), 2 * 33_554_432, NOTE
    ),
    "triton_tem_fused_mm_3(bf16[64,32] bf16[48,16] bf16[64,16] =1)": Cost(
        None, None, None, IN_PART
    ),
}
