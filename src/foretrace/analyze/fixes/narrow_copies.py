"""Copy in the type that the GPU takes.

What it looks for: a large copy from the host, and a kernel behind it that turns all of it into a
type of fewer bytes (float64 to float32, float32 to bfloat16).

What must hold: the types are floating or both integers, and the tensor is no batch of images for a
convolution: those can be bytes (`bytes_not_floats`).

What changes: the copy moves fewer bytes, and the cast goes. The host must store or load the data in
the narrow type; where it casts in each step, it takes back what the copy saves, so at worst nothing
is gained.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._copies import HostCopy, casts_of, host_copies
from foretrace.analyze.fixes._step import Step
from foretrace.analyze.fixes.bytes_not_floats import convolved
from foretrace.base.units import bytes_text
from foretrace.model.costs import Tensor, short_type
from foretrace.model.replay import NOTHING, GraphChange

INTEGERS = frozenset({"long int", "int", "short int", "unsigned char"})


def _find(step: Step) -> Iterator[Proposal]:
    images = convolved(step)
    for copy in host_copies(step, "HtoD"):
        casts = {row: made for row, made in casts_of(step, copy).items() if _narrows(copy, made)}
        if casts and copy.tensor.dims not in images:
            yield _proposal(step, copy, casts)


def _narrows(copy: HostCopy, made: Tensor) -> bool:
    alike = (copy.tensor.type in INTEGERS) == (made.type in INTEGERS)
    return alike and (made.bytes or copy.bytes) < copy.bytes


def _proposal(step: Step, copy: HostCopy, casts: dict[int, Tensor]) -> Proposal:
    made = next(iter(casts.values()))
    wide, narrow = short_type(copy.tensor.type), short_type(made.type)
    length = float(step.trace.gpu.length[copy.row]) * (made.bytes or copy.bytes) / copy.bytes
    return Proposal(
        f"store the data as {narrow} on the host, not as {wide}",
        f"each step copies {bytes_text(copy.bytes)} as {wide} and casts them to {narrow}",
        GraphChange(length={copy.row: length}, gone=frozenset(casts)),
        worst=NOTHING,
        events=step.events(np.array([copy.row, *casts])),
    )


FIX = Fix("narrow_copies", "Copy in the type that the GPU takes", _find, ("gpu", "shapes"))
