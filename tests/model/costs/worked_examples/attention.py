"""Worked examples of `foretrace.model.costs.attention`."""

from foretrace.model.costs import Certainty, Cost, Launch
from foretrace.model.costs.attention import HALF
from worked_examples import at_least

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
        "FLOP at most: the causal mask over unequal lengths is not deducted",
        Certainty.ESTIMATE,
    ),
    # attention with a bias and without log-sum-exp
    "aten::_efficient_attention_forward(f32[1,32,2,8]*3 f32[1,2,32,32] - - =32 =32 =0. =0 "
    "=False)": Cost(4 * 2 * 32 * 32 * 8, 4 * (3 * 512 + 2048), 4 * 512),
    # values narrower than keys
    "aten::_cudnn_attention_forward(bf16[1,2,32,16]*2 bf16[1,2,32,8] -*3 =32 =32 =False =0. "
    "=False =False)": Cost(2 * 2 * 32 * 32 * 24, 2 * (1024 + 1024 + 512), 2 * 512),
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
}
