"""Store the weights in the type that the matmuls take.

What it looks for: kernels that cast float32 weights to 16 bits in each step, as autocast does: it
keeps the casts of one forward pass and drops them at its end.

What must hold: the step has no backward pass, because training needs the float32 weights. The cast
tensor has the shape of a weight of a matmul or a convolution in that type, not that of an input.

What changes: the casts go, on the GPU and on the host.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._copies import with_gaps
from foretrace.analyze.fixes._step import Step
from foretrace.analyze.fixes.keep_on_gpu import weights
from foretrace.base.units import plural
from foretrace.model.autograd import ENGINE
from foretrace.model.replay import GraphChange

HALVES = {"c10::BFloat16": "bfloat16", "c10::Half": "float16"}
CASTS = ("aten::to", "aten::_to_copy")


def _find(step: Step) -> Iterator[Proposal]:
    host = step.trace.host
    if (step.inside & host.named(lambda name: name.startswith(ENGINE))).any():
        return
    taken = weights(step)
    found = {row: kind for row in step.rows.tolist() if (kind := _cast(step, row, taken))}
    if not found:
        return
    rows = np.array(list(found))
    ops = host.nearest(step.trace.gpu.launch[rows], step.named(CASTS))
    ops = step.callers(np.unique(ops[ops >= 0]))
    kept = ops[np.array([step.name(event) in CASTS for event in ops.tolist()], bool)]
    yield Proposal(
        f"store the weights in 16 bits (model.to(torch.{next(iter(found.values()))}))",
        f"each step casts {plural(len(rows), 'weight')} from float32",
        GraphChange(with_gaps(step, np.unique(kept)), gone=frozenset(rows.tolist())),
        risk="results in 16 bits",
        events=step.events(rows),
    )


def _cast(step: Step, row: int, taken: set[tuple[tuple[int, ...], str]]) -> str:
    """The type to which a kernel casts a weight, or ""."""
    case = step.case(row)
    call = case.call if case and case.op == "aten::copy_" else None
    target, source = (call.tensor(0), call.tensor(1)) if call else (None, None)
    if target is None or source is None or source.type != "float":
        return ""
    return HALVES.get(target.type, "") if (target.dims, target.type) in taken else ""


FIX = Fix("cast_weights", "Store the weights in 16 bits", _find, ("gpu", "shapes"))
