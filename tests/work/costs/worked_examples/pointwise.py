"""Worked examples of `foretrace.work.costs.pointwise`."""

from foretrace.work.costs import Certainty, Cost, Launch
from foretrace.work.costs._cost import NO_TYPE, UNSIZED
from foretrace.work.costs.pointwise import PASSES
from worked_examples import at_least

_ADAM = (
    "multi_tensor_apply_kernel<TensorListMetadata<4>, "
    "FusedAdamMathFunctor<c10::BFloat16, 4, (M)1, false>"
)

EXAMPLES = {
    "aten::gelu(bf16[64,128,3072]@393216,3072,1 -)": Cost(25_165_824, 50_331_648, 50_331_648),
    "aten::mul(bf16[64,128,3072]@393216,3072,1*2)": Cost(25_165_824, 100_663_296, 50_331_648),
    "aten::mul(bf16[1024] bf16[4,1024,1024])": Cost(4_194_304, 2048 + 8_388_608, 8_388_608),
    "aten::div(f32[4,1024,1024]@1024,1,0 i64[])": Cost(4_194_304, 16_384, 16_777_216),
    "aten::eq(i64[1,141] =1)": Cost(0, 1128, 141),
    "aten::where(bool[8,8] f16[8,8] =0.)": Cost(0, 64 + 128, 128),
    "aten::add_(f32[16,16] bf16[16] =1)": Cost(256, 1024 + 32, 1024),
    "aten::sqrt(i64[10])": Cost(10, 80, 40),
    # out decides the type
    "aten::add(bf16[8]*2 ? f32[0])": Cost(8, 32, 32),
    "aten::_foreach_add_(f32{128,128;128}*2 =-0.001)": Cost(16_512, 2 * 4 * 16_512, 4 * 16_512),
    "aten::_foreach_copy_(i64{32;32;32;32}*2 ?)": Cost(0, 1024, 1024),
    "aten::_foreach_sqrt({})": UNSIZED,
    "aten::_foreach_sqrt({4;5})": Cost(9, None, None, NO_TYPE),
    # foreach norm writes a value per tensor
    "aten::_foreach_norm(f32{4;6} ?)": Cost(10, 40, 8),
    "aten::_amp_foreach_non_finite_check_and_unscale_(f32{4;6} f32[1] f32[])": Cost(10, 40, 40),
    "aten::_fused_adamw_(f32{8,4}*4 f32{} f32{()})": Cost(None, 4 * (4 * 32 + 1), 4 * 3 * 32),
    "aten::_fused_sgd_({}*3)": UNSIZED,
    "aten::mean(f32[4,1024,1024] =[-1] =True -)": Cost(4_194_304, 16_777_216, 16_384),
    "aten::sum(bf16[4,1024,1024] =[0,1] =True -)": Cost(4_194_304, 8_388_608, 2048),
    "aten::sum(i32[10] -)": Cost(10, 40, 8),
    "aten::argmax(f32[32,151936] =-1 =False)": Cost(4_861_952, 19_447_808, 256),
    "aten::max(f32[8,4] =1 =False)": Cost(32, 128, 8 * 4 + 8 * 8),
    "aten::all(bool[1,141])": Cost(141, 141, 1),
    "aten::sum(f32[4,8] ?[] ? -)": at_least(
        32, 128, None, "the reduced dimensions are not recorded"
    ),
    "aten::sort(f32[8,100])": Cost(None, 3200, 3200 + 6400, PASSES),
    "aten::topk(f16[4,1000] =8 =-1)": Cost(None, 8000, 4 * 8 * (2 + 8), PASSES),
    "aten::cumsum(i32[32] =0 -)": Cost(None, 128, 256),
    "aten::kthvalue(f32[4,9] =3 =1)": Cost(None, 144, 48, PASSES),
}

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
    "aten::cumsum(- long[300] ? -)": {
        Launch(
            "cub::DeviceScanInitKernel<cub::ScanTileState<long, true> >", "reduction", 1
        ): at_least(None, 0, 16, "writes the state of one tile per block of the scan"),
        Launch(
            "cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, long>, long*, long*>",
            "reduction",
            1,
        ): at_least(None, 2400, 2400, "reads the input, writes the result"),
    },
}
