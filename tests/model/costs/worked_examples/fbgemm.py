"""Worked examples of `foretrace.model.costs.fbgemm`."""

from foretrace.model.costs import Cost, Launch
from foretrace.model.costs.fbgemm import HIDDEN
from worked_examples import at_least

EXAMPLES = {
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
