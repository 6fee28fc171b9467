"""Worked examples of `foretrace.model.costs.liger`."""

from foretrace.model.costs import Cost

EXAMPLES = {
    "LigerGELUMulFunction(bf16[64,128,3072]*2)": Cost(None, 100_663_296, 50_331_648),
    "LigerGELUMulFunctionBackward(bf16[64,128,3072])": Cost(None, 150_994_944, 100_663_296),
    "LigerRopeFunction(bf16[1,2,8,4] bf16[1,1,8,4] bf16[1,8,4]*2)": Cost(
        None, 2 * (64 + 32 + 32 + 32), 2 * 96
    ),
}
