"""Worked examples of `foretrace.model.costs.foreach`."""

from foretrace.model.costs import Cost
from foretrace.model.costs._cost import NO_TYPE, UNSIZED

EXAMPLES = {
    "aten::_foreach_add_(f32{128,128;128}*2 =-0.001)": Cost(16_512, 2 * 4 * 16_512, 4 * 16_512),
    "aten::_foreach_copy_(i64{32;32;32;32}*2 ?)": Cost(0, 1024, 1024),
    "aten::_foreach_sqrt({})": UNSIZED,
    "aten::_foreach_sqrt({4;5})": Cost(9, None, None, NO_TYPE),
    # foreach norm writes a value per tensor
    "aten::_foreach_norm(f32{4;6} ?)": Cost(10, 40, 8),
    "aten::_amp_foreach_non_finite_check_and_unscale_(f32{4;6} f32[1] f32[])": Cost(10, 40, 40),
}
