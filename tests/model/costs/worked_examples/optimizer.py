"""Worked examples of `foretrace.model.costs.optimizer`."""

from foretrace.model.costs import Certainty, Cost, Launch
from foretrace.model.costs._cost import UNSIZED

EXAMPLES = {
    "aten::_fused_adamw_(f32{8,4}*4 f32{} f32{()})": Cost(None, 4 * (4 * 32 + 1), 4 * 3 * 32),
    "aten::_fused_sgd_({}*3)": UNSIZED,
}
_ADAM = (
    "multi_tensor_apply_kernel<TensorListMetadata<4>, "
    "FusedAdamMathFunctor<c10::BFloat16, 4, (M)1, false>"
)
SPLIT = {
    "aten::_fused_adamw_({}*6)": {
        Launch(_ADAM, "optimizer", 320): Cost(
            None,
            4 * 284 * 131_072,
            3 * 284 * 131_072,
            "284 of 320 chunks of 65,536 elements; the others may be cut",
            Certainty.AT_LEAST,
        ),
        Launch(_ADAM, "optimizer", 31): Cost(
            None,
            None,
            None,
            "31 chunks of up to 65,536 elements; their sizes are not recorded",
        ),
    },
}
