"""Worked examples of `foretrace.model.costs.pooling`."""

from foretrace.model.costs import Cost

EXAMPLES = {
    "aten::max_pool2d_with_indices(f32[2,8,16,16] =[2,2] =[] =[0,0] =[1,1] =False)": Cost(
        None, 16_384, 1024 * (4 + 8)
    ),
    "aten::_adaptive_avg_pool2d(f16[2,8,7,7] =[1,1])": Cost(None, 1568, 32),
    # a pool backward reads its indices
    "aten::max_pool2d_with_indices_backward(f32[1,1,2,2] f32[1,1,4,4] ?[] i64[1,1,2,2])": Cost(
        None, 16 + 32, 64
    ),
}
