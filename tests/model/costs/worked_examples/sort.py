"""Worked examples of `foretrace.model.costs.sort`."""

from foretrace.model.costs import Cost, Launch
from foretrace.model.costs.sort import PASSES
from worked_examples import at_least

EXAMPLES = {
    "aten::sort(f32[8,100])": Cost(None, 3200, 3200 + 6400, PASSES),
    "aten::topk(f16[4,1000] =8 =-1)": Cost(None, 8000, 4 * 8 * (2 + 8), PASSES),
    "aten::cumsum(i32[32] =0 -)": Cost(None, 128, 256),
    "aten::kthvalue(f32[4,9] =3 =1)": Cost(None, 144, 48, PASSES),
}
SPLIT = {
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
