"""Worked examples of `foretrace.model.costs.copy`."""

from foretrace.model.costs import Cost, Launch
from worked_examples import at_least

EXAMPLES = {
    "aten::index_select(bf16[30522,512] =0 i64[141])": Cost(0, 144_384 + 1128, 144_384),
    "aten::gather(bf16[32000,1024]@1024,1 =0 i64[4096,1024]@1,0 =False "
    "bf16[4096,1024]@1024,1)": Cost(0, 8_388_608 + 32_768, 8_388_608),
    "aten::scatter_add_(f32[4] ? i64[2] f32[2])": Cost(2, 16 + 8 + 8, 8),
    "aten::embedding_dense_backward(bf16[4,1024,1024] i64[4,1024])": at_least(
        4_194_304,
        8_421_376,
        None,
        "how many distinct rows are written depends on the data, and so does the sorting",
    ),
    "aten::index(f32[888,2880] -)": Cost(
        None, None, None, "how many elements are picked is not recorded"
    ),
    # a scatter that is not in place copies
    "aten::scatter(f32[10] =0 i64[2] =1.)": Cost(0, 16 + 40, 8 + 40),
    # index_add reads and writes whole rows
    "aten::index_add_(f32[10,4] =0 i64[3] f32[3,4] =1)": Cost(12, 24 + 48 + 48, 48),
    # index_put knows its values
    "aten::_index_put_impl_(f32[10,4] - f32[3,4] ?)": at_least(
        None,
        48,
        None,
        "the index tensors are not recorded, and broadcast values are written more often",
    ),
    # nonzero reads everything
    "aten::nonzero(bool[100])": at_least(
        None, 100, None, "the size of the result depends on the data"
    ),
}
SPLIT = {
    "aten::embedding_dense_backward(bf16[4,1024,1024] i64[4,1024])": {
        Launch(
            "DeviceRadixSortHistogramKernel<policy_hub<long, OpaqueType<8>, unsigned long long>",
            "sort",
        ): at_least(None, 32_768, None, "reads the keys"),
        Launch(
            "DeviceRadixSortOnesweepKernel<policy_hub<long, OpaqueType<8>, unsigned long long>",
            "sort",
        ): at_least(None, 65_536, 65_536, "reads and writes keys and values"),
        Launch("DeviceUniqueByKeySweepKernel<policy_hub<long, int>", "scatter_gather"): at_least(
            None, 32_768, None, "reads the sorted indices"
        ),
        Launch("compute_grad_weight<c10::BFloat16, long>", "scatter_gather"): at_least(
            None, 8_421_376, None, "reads the gradient and the places of its rows"
        ),
        Launch("sum_and_scatter<c10::BFloat16, long>", "scatter_gather"): Cost(
            None,
            None,
            None,
            "how many distinct rows are written depends on the data, and so does the sorting; "
            "one of 5 kernels of the op; the trace does not say which bytes it moves",
        ),
    },
}
