"""Worked examples of `foretrace.work.costs.libraries`."""

from foretrace.work.costs import Certainty, Cost, Launch
from foretrace.work.costs.libraries import GATED, HIDDEN, IN_PART, NOTE
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
    "LigerGELUMulFunction(bf16[64,128,3072]*2)": Cost(None, 100_663_296, 50_331_648),
    "LigerGELUMulFunctionBackward(bf16[64,128,3072])": Cost(None, 150_994_944, 100_663_296),
    "LigerRopeFunction(bf16[1,2,8,4] bf16[1,1,8,4] bf16[1,8,4]*2)": Cost(
        None, 2 * (64 + 32 + 32 + 32), 2 * 96
    ),
    "fbgemm::FloatToFP8RowwiseQuantized(f32[100,256] ?)": at_least(
        None, 102_400, 25_600, "leaves out the scales and the padding of the rows"
    ),
    "fbgemm::asynchronous_complete_cumsum(i32[2048])": Cost(None, 8192, 8196),
    "fbgemm::permute_2D_sparse_data(i32[12] i32[10,64] i32[9000] - ?)": at_least(
        None, 48 + 2 * 3072, None, "how many values the chosen rows hold depends on the data"
    ),
    "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>(f32[64,160])": Cost(
        None, None, None, HIDDEN
    ),
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

SPLIT = {
    "fbgemm::FloatToFP8RowwiseQuantized(f32[100,256] ?)": {
        Launch("fbgemm_gpu::_get_FP8_qparam_cuda_kernel<float>"): at_least(
            None, 102_400, 400, "reads the input, writes a scale per row"
        ),
        Launch("fbgemm_gpu::_compute_FP8_quantize_cuda_kernel<float>"): at_least(
            None, 102_800, 25_600, "reads the input and its scales, writes a byte per element"
        ),
    },
    "fbgemm::permute_2D_sparse_data(i32[12] i32[10,64] i32[9000] - ?)": {
        Launch("fbgemm_gpu::permute_2D_lengths_kernel<int>"): at_least(
            None, 48 + 3072, 3072, "reads and writes the lengths of the chosen rows"
        ),
        Launch("fbgemm_gpu::permute_2D_data_kernel<false, int, int>"): Cost(
            None,
            None,
            None,
            "how many values the chosen rows hold depends on the data; one of 2 kernels of the "
            "op; the trace does not say which bytes it moves",
        ),
    },
}
