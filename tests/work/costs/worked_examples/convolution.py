"""Worked examples of `foretrace.work.costs.matmul`."""

from foretrace.work.costs import Cost
from worked_examples import at_least

EXAMPLES = {
    "aten::cudnn_convolution(f32[2,8,16,16] f32[4,4,3,3] =[1,1] =[2,2] =[1,1] =2 =False =False "
    "=True)": Cost(2 * 512 * 36, 4 * (4096 + 144), 4 * 512),
    "aten::convolution(f16[1,6,5,5] f16[6,2,3,3] f16[4] =[2,2] =[0,0] =[1,1] =True =[1,1] "
    "=2)": Cost(2 * 150 * 18, 2 * (150 + 108 + 4), 2 * 4 * 12 * 12),
    "aten::convolution_backward(f32[2,4,8,8] f32[2,8,16,16] f32[4,4,3,3] =[0] =[2,2] =[1,1] "
    "=[1,1] =False =[0,0] =2 =[True,True,False])": Cost(
        2 * 2 * 512 * 36, 4 * (512 + 4096 + 144), 4 * (4096 + 144), matmuls=2
    ),
    "aten::cudnn_convolution(f32[2,8,16,16] f32[4,4,3,3])": at_least(
        None, 16_960, None, "stride and padding are not recorded, so the output is unknown"
    ),
    "aten::max_pool2d_with_indices(f32[2,8,16,16] =[2,2] =[] =[0,0] =[1,1] =False)": Cost(
        None, 16_384, 1024 * (4 + 8)
    ),
    "aten::_adaptive_avg_pool2d(f16[2,8,7,7] =[1,1])": Cost(None, 1568, 32),
    # a pool backward reads its indices
    "aten::max_pool2d_with_indices_backward(f32[1,1,2,2] f32[1,1,4,4] ?[] i64[1,1,2,2])": Cost(
        None, 16 + 32, 64
    ),
}
