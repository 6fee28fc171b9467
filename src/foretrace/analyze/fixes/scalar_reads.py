"""Read numbers of the GPU every N steps only.

What it looks for: `.item()`, `float(tensor)`, `if tensor:`, `print(tensor)` and `.tolist()` of
values on the GPU: a copy of a few bytes to the host, and a wait for all work before it.

What must hold: the call waited. Reads that another op makes, those of a GradScaler (after its check
for infinity) and those of autograd's anomaly mode have causes of their own and do not count.

What changes: the reads go with their waits. In one of N steps they remain.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.fixes._host import copies, waited
from foretrace.analyze.fixes._step import Ints, Proposal, Proposals, Step, fix
from foretrace.base.units import plural

READS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")
COPIES = ("aten::to", "aten::_to_copy", "aten::copy_")
SMALL = 4096  # bytes of a copy that a program reads as numbers
SCALER = "aten::_amp_foreach_non_finite_check_and_unscale_"
INSIDE = ("aten::", "autograd::engine::evaluate_function")


@fix("Read numbers of the GPU every N steps only", "gpu")
def _find(step: Step) -> Proposals:
    reads = _reads(step)
    if not len(reads):
        return
    order = "keep it on the GPU (.detach()), read it every N steps"
    if step.compiled:
        order = "take print and .item() out of the compiled code"
    names = {step.name(event) for event in reads.tolist()}
    words = [".item()"] * bool(names & {*READS})
    words += ["small copies to the host (.cpu(), .tolist())"] * bool(names & {*COPIES})
    yield Proposal(
        order,
        f"{plural(len(reads), 'wait')} per step for {' and '.join(words)}",
        step.without(reads),
        events=tuple(reads[:50].tolist()),
    )


def _reads(step: Step) -> Ints:
    """Ops that read numbers and waited, without those that have another cause."""
    host, found = step.trace.host, waited(step, step.ops(*READS, *COPIES))
    inner = host.named(lambda name: name.startswith(INSIDE))
    own = found[host.nearest(host.parent[found].astype(np.int64), inner) < 0]
    # a copy of a few bytes to the host
    sizes = [step.trace.gpu.bytes[copies(step, [event], "DtoH")] for event in own.tolist()]
    kept = own[[len(each) > 0 and int(each.max()) <= SMALL for each in sizes]]
    # the first one after each check of a GradScaler is the scaler's
    checks = np.sort(host.start[step.ops(SCALER)])
    after = kept[host.start[kept] > checks[-1]] if len(checks) else kept[:0]
    return kept[~np.isin(kept, after[:1])]
