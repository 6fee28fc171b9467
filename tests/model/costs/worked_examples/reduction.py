"""Worked examples of `foretrace.model.costs.reduction`."""

from foretrace.model.costs import Cost
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
}
