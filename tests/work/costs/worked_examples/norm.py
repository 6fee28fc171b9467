"""Worked examples of `foretrace.work.costs.pointwise`."""

from foretrace.work.costs import Cost, Launch
from worked_examples import at_least

EXAMPLES = {
    "aten::native_layer_norm(bf16[1,141,512] =[512] bf16[512]*2 =1e-12)": Cost(
        None, 144_384 + 2 * 1024, 144_384 + 2 * 4 * 141
    ),
    "aten::_fused_rms_norm_backward(f32[6,32]*2 =[32] f32[6,1] f32[32] =[True,True])": Cost(
        None, 4 * (192 + 192 + 6 + 32), 4 * (192 + 32)
    ),
    "aten::cudnn_batch_norm(f32[8,3,4,4] f32[3]*4 =True =0.1 =1e-05)": Cost(
        None, 4 * (384 + 12), 4 * (384 + 6 + 6)
    ),
    "aten::native_group_norm(f32[2,8,4] f32[8] f32[8] =2 =8 =4 =2 =1e-05)": Cost(
        None, 4 * (64 + 16), 4 * (64 + 8)
    ),
    # batch norm at inference keeps no statistics
    "aten::cudnn_batch_norm(f32[8,3,4] f32[3]*4 =False)": Cost(None, 4 * (96 + 12), 4 * 96),
    # layer norm backward leaves the bias unread
    "aten::native_layer_norm_backward(f32[6,8]*2 =[8] f32[6,1]*2 f32[8] f32[8] "
    "=[True,True,True])": Cost(None, 4 * (48 + 48 + 6 + 6 + 8), 4 * (48 + 8 + 8)),
    "aten::_log_softmax(f32[4096,32000] =1 =False)": Cost(None, 524_288_000, 524_288_000),
    "aten::_softmax(f16[8,10] =1 =True)": Cost(None, 160, 320),
    "aten::_softmax_backward_data(f32[8,10]*2 =1 =5)": Cost(None, 640, 160),
    "aten::nll_loss_forward(f32[4096,32000] i64[4096] - =1 =-100)": Cost(None, 4096 * 12, 8),
}

SPLIT = {
    "aten::_fused_rms_norm_backward(f32[6,32]*2 =[32] f32[6,1] f32[32] =[True,True])": {
        Launch(
            "layer_norm_grad_input_kernel_vectorized<float, float, true>", "normalization"
        ): at_least(
            None, 4 * (192 + 192 + 6 + 32), 4 * 192, "reads the inputs, writes the input's gradient"
        ),
        Launch(
            "GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 32u>", "normalization"
        ): at_least(
            None,
            4 * (192 + 192 + 6),
            4 * 32,
            "reads the inputs, writes the gradients of scale and shift",
        ),
    },
    "aten::native_layer_norm(f32[8,32] - f32[32]*2 ?)": {
        Launch("RowwiseMomentsCUDAKernel<float, float>", "normalization"): at_least(
            None, 1024, None, "reads the input"
        ),
        Launch("LayerNormForwardCUDAKernel<float, float>", "normalization"): at_least(
            None, 1024 + 256, 1024, "reads input, scale and shift, writes the output"
        ),
    },
}
