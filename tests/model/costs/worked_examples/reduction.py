"""Worked examples of `foretrace.model.costs.pointwise`."""

from foretrace.model.costs import Cost, Launch
from foretrace.model.costs.pointwise import PASSES
from worked_examples import at_least

EXAMPLES = {
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
