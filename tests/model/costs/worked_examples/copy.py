"""Worked examples of `foretrace.model.costs.copy`."""

from foretrace.model.costs import Cost
from foretrace.model.costs._cost import NO_TYPE

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
}
