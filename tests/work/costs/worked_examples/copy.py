"""Worked examples of `foretrace.work.costs.pointwise`."""

from foretrace.work.costs import Cost, Launch
from foretrace.work.costs._cost import NO_TYPE
from foretrace.work.costs.pointwise import NOTE, SENT
from worked_examples import at_least

EXAMPLES = {
    "aten::copy_(bf16[1,1024,64] f32[1,1024,64] ?)": Cost(0, 262_144, 131_072),
    "aten::copy_(f32[2,1000]@1000,1 f32[2,1000]@1,0)": Cost(0, 8, 8000),
    "aten::fill_(i64[4,1025] ?)": Cost(0, 0, 32_800),
    "aten::arange(=0 =1024 =1 i64[0])": Cost(0, 0, 8192),
    "aten::cat(f32{1,1024,32;1,1024,32} ?)": Cost(0, 262_144, 262_144),
    "aten::cat({8;8} ?)": Cost(0, None, None, NO_TYPE),
    "aten::constant_pad_nd(f32[2,3] =[1,1] =0.)": Cost(0, 24, 40),
    "aten::normal_(f32[10,4] ? ?)": Cost(None, 0, 160),
    "aten::native_dropout(bf16[8,16])": Cost(128, 256, 256 + 128),
    "aten::multinomial(f32[4,100] =1 =False)": Cost(None, 1600, 32),
    "record_param_comms(bf16[1,25136]) | dtype=BFloat16 | In msg nelems=25136 | Out msg "
    "nelems=201088": at_least(None, 50_272, 402_176, NOTE),
    "symm_mem::multimem_all_reduce_(bf16[2557440] - -)": at_least(None, 5_114_880, 5_114_880, NOTE),
    # before torch 2.1 the record has the tensor alone
    "record_param_comms(u8[339738624] ? ? ? - - -)": at_least(None, 339_738_624, None, SENT),
    "c10d::_allgather_base_(bf16[201088] bf16[25136] -)": at_least(None, 50_272, 402_176, NOTE),
    "_C_custom_ar::all_reduce(? bf16[1024] bf16[1024] ? ?)": at_least(None, 2048, 2048, NOTE),
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
