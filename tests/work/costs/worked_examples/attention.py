"""Worked examples of `foretrace.work.costs.attention`."""

from foretrace.work.costs import Certainty, Cost, Launch
from foretrace.work.costs.attention import HALF, NO_LENGTHS, WHOLE, WINDOW
from worked_examples import at_least


def _at_most(flops: int, read: int, written: int, least: int) -> Cost:
    return Cost(flops, read, written, WHOLE, Certainty.AT_MOST, least=least)


# 32 requests that decode, 64 query and 8 key heads of 64 values
_DECODE = (
    "vllm::unified_attention_with_output(bf16[32,64,64] bf16[32,8,64]*2 bf16[32,64,64] - - - "
    "bf16[0])"
)
_ROW = 2 * 8 * 2 * 64  # bytes of the keys and values of one token
_OUT = 2 * 32 * 64 * 64
_LEAST = _OUT + 32 * _ROW + _OUT
_FLASH = (
    "_vllm_fa3_C::fwd(bf16[2,4,8] bf16[99,16,2,8]*2 - - - bf16[2,4,8] i32[3] - - - i32[2] =1 =9000 "
    "i32[2,600] - - - - - - - - ? =True {} =0) | context=2,2,9000,9000,2"
)

EXAMPLES = {
    "aiter::fmha_v3_fwd(bf16[2,128,8,64] bf16[2,128,2,64]*2 =0. =0.125 =True)": Cost(
        2 * 8 * 128 * 128 * 2 * 64, 2 * (131_072 + 65_536), 2 * 131_072 + 4 * 2048, HALF
    ),
    "aten::_cudnn_attention_forward(bf16[4,16,1024,64] bf16[4,4,1024,64]*2 -*3 =1024 =1024 "
    "=True =0. =True =False =0.125)": Cost(
        8_589_934_592, 8_388_608 + 2 * 2_097_152, 8_388_608 + 4 * 65_536, HALF
    ),
    "aten::_flash_attention_forward(bf16[1,141,8,64]*3 - - =141 =141 =0. =False =False "
    "=0.125)": Cost(4 * 8 * 141 * 141 * 64, 3 * 144_384, 144_384 + 4 * 8 * 141),
    "aten::_flash_attention_forward(bf16[100,8,64]*3 i32[5] i32[5] =40 =40 =0. =True =False)": Cost(
        None, 3 * 102_400, 102_400 + 3200, "sequences are packed and their lengths are not recorded"
    ),
    # causal with a cache keeps all pairs
    "aten::_scaled_dot_product_flash_attention(bf16[1,2,1,64] bf16[1,2,100,64]*2 =0. =True "
    "=False)": Cost(
        4 * 2 * 100 * 64,
        2 * (128 + 2 * 12_800),
        2 * 128 + 4 * 2,
        "the causal mask over unequal lengths is not deducted",
        Certainty.AT_MOST,
    ),
    # a query, three keys before it, and one after it: 8 + (7 + 6 + 5) + 7 pairs
    "aten::_flash_attention_forward(bf16[1,8,2,4]*3 - - =8 =8 =0. =False =False =0.5 =3 =1)": Cost(
        4 * 2 * 33 * 4, 3 * 128, 128 + 64, "window: 33 of 64 query-key pairs"
    ),
    "flash_attn::_flash_attn_forward(bf16[1,8,2,4]*3 =0. =0.5 =True =3 =-1)": Cost(
        4 * 2 * 26 * 4, 3 * 128, 128 + 64, "window: 26 of 64 query-key pairs"
    ),
    "flash_attn::_flash_attn_forward(bf16[1,8,2,4]*3 =0. =0.5 =True =-1 =-1)": Cost(
        4 * 2 * 32 * 4, 3 * 128, 128 + 64, HALF
    ),
    "flash_attn::_flash_attn_forward(bf16[1,1,2,4] bf16[1,8,2,4]*2 =0. =0.5 =False =3 =0)": Cost(
        4 * 2 * 8 * 4,
        16 + 2 * 128,
        16 + 8,
        "the window over unequal lengths is not deducted",
        Certainty.AT_MOST,
    ),
    # attention with a bias and without log-sum-exp
    "aten::_efficient_attention_forward(f32[1,32,2,8]*3 f32[1,2,32,32] - - =32 =32 =0. =0 "
    "=False)": Cost(4 * 2 * 32 * 32 * 8, 4 * (3 * 512 + 2048), 4 * 512),
    # values narrower than keys
    "aten::_cudnn_attention_forward(bf16[1,2,32,16]*2 bf16[1,2,32,8] -*3 =32 =32 =False =0. "
    "=False =False)": Cost(2 * 2 * 32 * 32 * 24, 2 * (1024 + 1024 + 512), 2 * 512),
    "aten::_flash_attention_backward(bf16[2,32,4,16]*5 f32[2,4,32] - - =32 =32 =0. =True)": Cost(
        5 * 2 * 4 * 32 * 32 * 16, 5 * 8192 + 1024, 3 * 8192, HALF
    ),
    _DECODE: at_least(None, _OUT + 32 * _ROW, _OUT, NO_LENGTHS),
    f"{_DECODE} | context=32,32,55086,55086,32": _at_most(
        4 * 64 * 64 * 55_086, _OUT + 55_086 * _ROW, _OUT, _LEAST
    ),
    # two requests of 3 new tokens each: 3 * 3 pairs less those of a token with one that follows it
    "vllm::unified_attention_with_output(bf16[6,4,8] bf16[6,2,8]*2 bf16[6,4,8] -) "
    "| context=2,6,6,18,18": _at_most(4 * 4 * 8 * 12, 2 * 192 + 6 * 64, 2 * 192, 4 * 192 + 6 * 64),
    # a chunk of 3 tokens behind 5 that are in the cache: 6 + 7 + 8 pairs
    "vllm::unified_attention_with_output(bf16[3,4,8] bf16[3,2,8]*2 bf16[3,4,8] -) "
    "| context=1,3,8,24,9": _at_most(4 * 4 * 8 * 21, 2 * 96 + 8 * 64, 2 * 96, 4 * 96 + 3 * 64),
    # more new tokens than the call has: the lengths are of another step
    "vllm::unified_attention_with_output(bf16[3,4,8] bf16[3,2,8]*2 bf16[3,4,8] -) "
    "| context=1,9,9,81,81": at_least(None, 2 * 96 + 3 * 64, 2 * 96, NO_LENGTHS),
    "sglang_profiler::attention_paged_attention_ragged_100(bf16[32,32,128] u8[10905190400] "
    "bf16[32,32,128] bf16[835874,1,8,128]*2 i32[33] i32[20971520] i32[4096] - f32[1]*2 -) "
    "| context=32,32,32785,32785,32": _at_most(
        4 * 32 * 128 * 32_785,
        2 * (131_072 + 32_785 * 2048),
        2 * 131_072,
        2 * (2 * 131_072 + 32 * 2048),
    ),
    # caches of [pages, heads, D / x, page, x]
    "_C::paged_attention_v1(bf16[2,4,16] bf16[2,4,16] bf16[90,2,2,16,8]*2) "
    "| context=2,2,30,30,2": _at_most(4 * 4 * 16 * 30, 256 + 30 * 128, 256, 512 + 2 * 128),
    # FlashAttention 3 with pages of 16 tokens: a window of 128 before each of 2 queries
    _FLASH.format("=127"): _at_most(4 * 4 * 8 * 256, 128 + 256 * 64, 128, 2 * 128 + 2 * 64),
    _FLASH.format("=-1"): _at_most(4 * 4 * 8 * 9000, 128 + 9000 * 64, 128, 2 * 128 + 2 * 64),
    # 15 requests of 1024 new tokens: 1024 * 1025 / 2 pairs each, and the result is new
    "aiter::mha_batch_prefill(bf16[15360,32,128] bf16[835874,8,128]*2 i32[16]*2 i32[15616] =1024 "
    "=1024 =0. =0.088 =0. =False =True =-1 =-1 =0) | context=15,15360,15360,15728640,15728640": (
        _at_most(
            4 * 32 * 128 * 15 * 524_800,
            2 * 15_360 * (4096 + 2048),
            2 * 15_360 * 4096,
            2 * 15_360 * (2 * 4096 + 2048),
        )
    ),
    # latent queries of 512 + 64 values over one latent row per token
    "vllm::unified_mla_attention_with_output(bf16[2,16,192] bf16[2,512] bf16[2,1,64] "
    "bf16[2,2048] -) | context=2,2,100,100,2": _at_most(
        2 * 16 * (576 + 512) * 100,
        2 * (2 * 16 * 576 + 100 * 576),
        2 * 2 * 16 * 512,
        2 * (2 * 16 * (576 + 512) + 2 * 576),
    ),
}

SPLIT = {
    # cuDNN, one query over 4096 keys
    "aten::_cudnn_attention_forward(bf16[2,8,1,64] bf16[2,8,4096,64]*2 - - - =1 =4096 =False =0. "
    "=False =False)": {
        Launch("cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16", "attention"): at_least(
            4 * 2 * 8 * 4096 * 64,
            2048 + 2 * 8_388_608,
            2048,
            "reads query, key and value, writes the output of one split",
        ),
        Launch("cudnn::fusion::lean_reduction_kernel<false, false>", "reduction"): at_least(
            None, 2048, 2048, "reads the output of one split, writes the output"
        ),
    },
    "aten::_flash_attention_forward(bf16[1,1,8,64] bf16[1,4096,8,64]*2 - - =1 =4096 =0. =False "
    "=False =0.125)": {
        Launch("flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64>>", "attention"): at_least(
            4 * 8 * 4096 * 64,
            1024 + 2 * 4_194_304,
            1024,
            "reads query, key and value, writes the output of one split",
        ),
        Launch(
            "flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>", "attention"
        ): at_least(None, 1024, 1024, "reads the output of one split, writes the output"),
    },
    "aten::_cudnn_attention_backward(bf16[4,16,1024,64]*2 bf16[4,4,1024,64]*2 "
    "bf16[4,16,1024,64] f32[4,16,1024,1] -*8 =True)": {
        Launch("cudnn::fusion::compute_dot_do_o_specialized<true, 64>", "attention"): at_least(
            None,
            2 * 8_388_608,
            262_144,
            "reads the output and its gradient, writes a float per row",
        ),
        Launch("cudnn_generated_fort_native_sdpa_sm90_flash_bprop", "attention"): at_least(
            21_474_836_480,
            2 * 8_388_608 + 2 * 2_097_152 + 2 * 262_144,
            16_777_216 + 2 * 8_388_608,
            "reads the inputs and the output's gradient, writes the gradients once; causal: half "
            "of the query-key pairs",
        ),
        Launch("cudnn::fusion::convert_dq_to_16bits<true>", "attention"): at_least(
            None,
            16_777_216,
            8_388_608,
            "reads the query's gradient as floats, writes it in its own type",
        ),
        Launch("cudnn::fusion::fmha_reduce_head<true>", "attention"): at_least(
            None, 8_388_608, 2_097_152, "reads a gradient per query head, writes one per key head"
        ),
    },
    f"{_DECODE} | context=32,32,55086,55086,32": {
        Launch("kernel_unified_attention_3d", "attention"): _at_most(
            4 * 64 * 64 * 55_086, _OUT + 55_086 * _ROW, _OUT, _LEAST
        ),
        Launch("reduce_segments", "attention"): at_least(
            None, _OUT, _OUT, "reads the output of one split, writes the output"
        ),
    },
    # 8-bit keys and values; the name says that there is a window
    f"{_DECODE} | context=32,32,55086,55086,33": {
        Launch("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvSlidingOrChunkedCausal", ""): at_least(
            None, _OUT + 16 * _ROW, _OUT, WINDOW
        ),
    },
}
