"""Copy images as bytes, and convert them on the GPU.

What it looks for: a copy from the host of images in a floating type, `[N, 3, H, W]` or
`[N, H, W, 3]`, that a convolution takes, as they are or after a cast.

What must hold: images that were read from files had a byte per value before a transform made floats
of them. The trace cannot show that: the user must check.

What changes: the copy moves a byte per value. The GPU then converts and scales: two kernels, which
read and write the images once each.
"""

from __future__ import annotations

from functools import partial

from foretrace.base.units import bytes_text
from foretrace.look.fixes._changes import of_each
from foretrace.look.fixes._host import HostCopy, cast_in, host_copies
from foretrace.look.fixes._step import Case, GraphChange, Proposal, Proposals, Step, fix
from foretrace.work.costs import short_type

WIDTHS = {"float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2}
COLORS = 3
CONVOLUTIONS = ("aten::conv2d", "aten::convolution", "aten::conv3d")
# Of the bandwidth: a kernel that reads bytes and writes floats loads one value at a time (0.25 on
# an H200; at best 1, at worst half of it), the scaling after it is vectorized.
CONVERT, SCALE = (0.25, 1.0, 0.125), 0.8
ORDER = "copy uint8 images, convert on the GPU (x.float().div(255))"
RISK = "holds where the images were bytes before a transform"


@fix("Copy images as bytes", "gpu shapes")
def _find(step: Step) -> Proposals:
    taken = convolved(step)
    copies = [
        each
        for each in host_copies(step, "HtoD")
        if each.tensor.type in WIDTHS and each.tensor.dims in taken
    ]
    if not copies or step.device is None:
        return
    first = copies[0].tensor
    size = bytes_text(sum(each.bytes for each in copies))
    why = f"each step copies {size} of {short_type(first.type)} images, {list(first.dims)}"
    changes = of_each(partial(_changed, step, copies), CONVERT)
    events = step.events([each.row for each in copies])
    yield Proposal(ORDER, why, *changes, risk=RISK, events=events)


def convolved(step: Step) -> dict[tuple[int, ...], str]:
    """Shapes of images that convolutions take, and their types; channels may have been last."""
    found: dict[tuple[int, ...], str] = {}
    for event in step.ops(*CONVOLUTIONS).tolist():
        tensor = step.tensor(event)
        if tensor and len(tensor.dims) == 4 and tensor.dims[1] == COLORS:
            count, colors, height, width = tensor.dims
            if min(height, width) >= 32 and tensor.type in WIDTHS:  # pixels
                found |= {tensor.dims: tensor.type, (count, height, width, colors): tensor.type}
    return found


def _changed(step: Step, copies: list[HostCopy], speed: float) -> GraphChange:
    """Less to copy, and two kernels more, which the graph has as part of the copy. The first one
    writes the type that the convolution takes, so a cast to it goes.
    """
    length, taken = {}, convolved(step)
    made = {(*each.key, taken[each.tensor.dims]) for each in copies}

    def is_cast(case: Case) -> bool:
        if not (pair := cast_in(case)):
            return False
        source, target = pair
        return source.dims == target.dims and (source.dims, source.type, target.type) in made

    for each in copies:
        width, values = WIDTHS[taken[each.tensor.dims]], each.tensor.elements
        ns = step.move_ns((1 + width) * values) / speed + step.move_ns(2 * width * values) / SCALE
        now = float(step.trace.gpu.length[each.row])
        length[each.row] = now / WIDTHS[each.tensor.type] + ns
    return GraphChange(length=length, gone=frozenset(step.rows_where(is_cast).tolist()))
