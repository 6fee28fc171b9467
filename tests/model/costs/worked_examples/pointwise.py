"""Worked examples of `foretrace.model.costs.pointwise`."""

from foretrace.model.costs import Cost

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
}
