"""Which kernel carries what, when an op launches several."""

import pytest
from worked_examples import call

from foretrace.work.costs import Certainty, Cost, OpCall, attribute, element_type

MM = call("aten::mm(f32[64,32] f32[32,16])")
MUL = call("aten::_foreach_mul_({} ?)")
OTHER = call("my::op(f32[8])")
CONV_BACKWARD = call(
    "aten::convolution_backward(f32[2,4,8,8] f32[2,8,16,16] f32[4,4,3,3] =[0] =[2,2] =[1,1] =[1,1] "
    "=False =[0,0] =2 =[True,True,False])"
)
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::"
    "TensorListMetadata<{lists}>, at::native::(anonymous namespace)::{functor}, "
    "std::multiplies<float>, float>(...)"
)


def test_of_unnamed_kernels_the_longest_matmul_carries_the_flops_and_none_the_bytes() -> None:
    reduce, gemm, other = attribute(MM, ["reduction", "gemm", "gemm"], [9, 5, 4])
    note = "one of 3 kernels of the op; the trace does not say which bytes it moves"
    assert gemm == Cost(65_536, None, None, note)
    assert reduce == other == Cost(None, None, None, note)


@pytest.mark.parametrize(
    ("made", "roles", "flops"),
    [
        (CONV_BACKWARD, "copy conv conv other", [None, 36_864, 36_864, None]),  # they share it
        (CONV_BACKWARD, "conv other", [None, None]),  # one kernel for two matmuls
        (MM, "other copy", [None, None]),  # helpers
    ],
)
def test_matmuls_carry_the_flops(made: OpCall, roles: str, flops: list[int | None]) -> None:
    lengths = [9, 3, 4, 1][: len(flops)]
    assert [cost and cost.flops for cost in attribute(made, roles.split(), lengths)] == flops


SUB = call("aten::sub(f32[16384,1,64] f32[1,1024,64] ?)")
SUB_KERNEL = "void at::native::elementwise_kernel<128, 2, CUDAFunctor_add<float>>(int, ...)"
SUM = call("aten::sum(f32[16384,1024,64] =[-1] =False ?)")
SUM_KERNEL = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(...)"


def test_equal_parts_of_an_op_that_32_bits_cannot_index_share_its_cost() -> None:
    note = "one of 2 equal parts: 32 bits cannot index the whole"
    subs = attribute(SUB, ["pointwise"] * 2, [5, 5], names=[SUB_KERNEL] * 2, blocks=[9, 9])
    assert subs == [Cost(2**29, 2 * 64 * (16_384 + 1024), 2**31, note)] * 2
    sums = attribute(SUM, ["reduction"] * 2, [5, 5], names=[SUM_KERNEL] * 2, blocks=[9, 9])
    assert sums == [Cost(2**29, 2**31, 2 * 16_384 * 1024, note)] * 2
    types = ["float", "ScalarList", "Scalar", ""]  # without the dimensions that are reduced
    unknown = OpCall("aten::sum", [[16_384, 1024, 64], [], [], []], types)
    sums = attribute(unknown, ["reduction"] * 2, [5, 5], names=[SUM_KERNEL] * 2, blocks=[9, 9])
    assert [each and each.bytes for each in sums] == [2**31] * 2


@pytest.mark.parametrize(
    ("made", "names", "blocks"),
    [
        ("aten::sub(f32[1638,1,64] f32[1,1024,64] ?)", [SUB_KERNEL] * 2, [9, 9]),  # 32 bits do
        ("aten::sub(f32[16384,1,64] f32[1,1024,64] ?)", [SUB_KERNEL, SUM_KERNEL], [9, 9]),
        ("aten::sub(f32[16384,1,64] f32[1,1024,64] ?)", [SUB_KERNEL] * 2, [9, 8]),
        ("aten::sub(f32[16384,1,64] f32[1,1024,64] ?)", ["other"] * 2, [9, 9]),
    ],
)
def test_other_kernels_of_one_op_are_no_parts(
    made: str, names: list[str], blocks: list[int]
) -> None:
    found = attribute(call(made), ["pointwise"] * 2, [5, 5], names=names, blocks=blocks)
    assert [cost and cost.bytes for cost in found] == [None, None]


MUL_KERNEL = FOREACH.format(lists=1, functor="BinaryOpScalarFunctor<c10::BFloat16, 1, 1, 0>")


def chunks(*blocks: int) -> list[Cost | None]:
    roles, names = ["optimizer"] * len(blocks), [MUL_KERNEL] * len(blocks)
    return attribute(MUL, roles, list(blocks), names=names, blocks=blocks)


def test_only_whole_chunks_of_a_multi_tensor_kernel_count() -> None:
    """A launch of 320 blocks is full, so the build passes 110 tensors at most: 210 are whole."""
    first, second = chunks(320, 7)
    note = "210 of 320 chunks of 65,536 elements; the others may be cut"
    assert first == Cost(210 * 65_536, 210 * 131_072, 210 * 131_072, note, Certainty.AT_LEAST)
    note = "7 chunks of up to 65,536 elements; their sizes are not recorded"
    assert second == Cost(None, None, None, note)


def test_chunks_of_a_launch_that_is_not_full_may_all_be_cut() -> None:
    """31 step counters are 31 chunks of one element each."""
    assert [found and found.bytes for found in chunks(31)] == [None]


def test_the_kernels_of_an_op_without_a_cost_model_have_none() -> None:
    assert {cost.note for cost in attribute(OTHER, ["other"] * 2, [1, 2]) if cost} == {
        "this op has no cost model; one of 2 kernels of the op; the trace does not say which "
        "bytes it moves"
    }


def test_two_matmuls_beside_each_other_are_not_told_apart() -> None:
    names = ["splitKreduce_kernel", "first", "second"]
    bytes_ = [
        cost and cost.bytes
        for cost in attribute(MM, ["reduction", "gemm", "gemm"], [1, 5, 4], names=names)
    ]
    assert bytes_ == [2 * 4 * 1024, None, None]


class TestCub:
    """Kernels of CUB under ops whose shapes do not say how many items there are."""

    SCAN = (
        "void cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, {type}, "
        "(cub::BlockLoadAlgorithm)3, "
        "cub::MemBoundScaling<128, 15, {type}> >, {type} const*, {type}*, "
        "cub::ScanTileState<{type}, true> >(...)"
    )
    SUM = (
        "void cub::DeviceRadixSortExclusiveSumKernel<cub::DeviceRadixSortPolicy<long, int, "
        "int>::Policy800, int>(int*)"
    )

    def part(self, name: str, blocks: int) -> Cost | None:
        return attribute(OTHER, ["other"] * 2, [1, 1], names=[name, "odd"], blocks=[blocks, 1])[0]

    @pytest.mark.parametrize(
        ("kind", "tile", "size"), [("int", 1920, 4), ("long", 896, 8), ("unsigned char", 3840, 1)]
    )
    def test_a_scan_fills_all_its_tiles_but_the_last(self, kind: str, tile: int, size: int) -> None:
        found = self.part(self.SCAN.format(type=kind), 137)
        assert found is not None
        assert (found.bytes_read, found.bytes_written) == ((136 * tile + 1) * size,) * 2
        assert found.certainty is Certainty.AT_LEAST
        assert found.note == f"scans 136 whole tiles of {tile:,} items and one item more"

    def test_a_scan_of_one_tile_may_have_any_size(self) -> None:
        found = self.part(self.SCAN.format(type="int"), 1)
        assert found is not None
        assert found.bytes is None

    def test_a_sort_counts_keys_in_bins(self) -> None:
        note = "reads and writes 256 counts of keys per block"
        assert self.part(self.SUM, 3) == Cost(None, 3072, 3072, note, Certainty.AT_LEAST)

    def test_a_sort_without_known_size_has_no_bytes(self) -> None:
        found = self.part(self.SUM.replace("ExclusiveSum", "Onesweep"), 2307)
        assert found is not None
        assert found.bytes is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (FOREACH.format(lists=1, functor="BinaryOpScalarFunctor<c10::Half, 1, 1, 0>"), "c10::Half"),
        (
            FOREACH.format(lists=1, functor="LpNormFunctor<float, (NormType)1, float, 1, 1, 0>"),
            "float",
        ),
        (
            "CatArrayBatchedCopy_aligned16_contig<at::native::OpaqueType<4u>, unsigned int, 2, "
            "128, 1>",
            "OpaqueType<4>",
        ),
        ("CatArrayBatchedCopy<c10::BFloat16, unsigned int, 3>", "c10::BFloat16"),
        (
            "vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, "
            "1ul> >",
            "int",
        ),
        ("sm90_xmma_gemm", ""),
    ],
)
def test_element_types_in_kernel_names(name: str, found: str) -> None:
    assert element_type(name) == found
