"""Worked examples of `foretrace.model.costs.softmax`."""

from foretrace.model.costs import Cost

EXAMPLES = {
    "aten::_log_softmax(f32[4096,32000] =1 =False)": Cost(None, 524_288_000, 524_288_000),
    "aten::_softmax(f16[8,10] =1 =True)": Cost(None, 160, 320),
    "aten::_softmax_backward_data(f32[8,10]*2 =1 =5)": Cost(None, 640, 160),
    "aten::nll_loss_forward(f32[4096,32000] i64[4096] - =1 =-100)": Cost(None, 4096 * 12, 8),
}
