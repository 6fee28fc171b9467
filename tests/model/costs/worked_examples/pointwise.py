"""Worked examples of `foretrace.model.costs.pointwise`."""

from foretrace.model.costs import Certainty, Cost, Launch
from foretrace.model.costs._cost import NO_TYPE, UNSIZED

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
}
