"""Worked examples of `foretrace.model.costs.optimizer`."""

from foretrace.model.costs import Certainty, Cost, Launch
from foretrace.model.costs._cost import UNSIZED

EXAMPLES = {
    "aten::_fused_adamw_(f32{8,4}*4 f32{} f32{()})": Cost(None, 4 * (4 * 32 + 1), 4 * 3 * 32),
    "aten::_fused_sgd_({}*3)": UNSIZED,
}
SPLIT = {
    "aten::_fused_adamw_({}*6)": {
        Launch(
            "multi_tensor_apply_kernel<TensorListMetadata<4>, "
            "FusedAdamMathFunctor<c10::BFloat16, 4, (M)1, false>",
            "optimizer",
            320,
        ): Cost(
            None,
            4 * 320 * 131_072,
            3 * 320 * 131_072,
            "at most 320 whole chunks of 65,536 elements of 4 lists",
            Certainty.ESTIMATE,
        ),
    },
}
