"""Worked examples of `foretrace.model.costs.attention_backward`."""

from foretrace.model.costs import Cost, Launch
from foretrace.model.costs.attention import HALF
from worked_examples import at_least

EXAMPLES = {
    "aten::_flash_attention_backward(bf16[2,32,4,16]*5 f32[2,4,32] - - =32 =32 =0. =True)": Cost(
        5 * 2 * 4 * 32 * 32 * 16, 5 * 8192 + 1024, 3 * 8192, HALF
    ),
}
SPLIT = {
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
}
