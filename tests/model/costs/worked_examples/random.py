"""Worked examples of `foretrace.model.costs.random`."""

from foretrace.model.costs import Cost

EXAMPLES = {
    "aten::normal_(f32[10,4] ? ?)": Cost(None, 0, 160),
    "aten::native_dropout(bf16[8,16])": Cost(128, 256, 256 + 128),
    "aten::multinomial(f32[4,100] =1 =False)": Cost(None, 1600, 32),
}
