"""Float32 instead of float64.

What it looks for: kernels on float64 tensors: NumPy's arrays and Python's numbers make them
unasked.

What must hold: an operand with dimensions is float64. Scalars beside tensors do not count.

What changes: a kernel that moves memory takes half of its time, a matmul or convolution that of
float32 without TF32 (at best, with it). On a CPU an op takes half of its time.
"""

from __future__ import annotations

from foretrace.base.units import plural
from foretrace.look.fixes._changes import BEST, Speed
from foretrace.look.fixes._cpu import CpuStep, dense
from foretrace.look.fixes._step import Case, Proposal, Proposals, Step, fix

MATMULS = frozenset({"gemm", "gemv", "conv", "attention"})
DOUBLE = "double"
LARGE = 1_024  # elements of a tensor that a CPU works on for long
ON_CPU = (0.5, 0.65, 0.3)  # of the time goes; 0.58 on a core with vectors of 512 bits


def _on_cpu(step: CpuStep) -> Proposals:
    wide = [
        event
        for event, call in step.arguments.items()
        if any(each.type == DOUBLE and each.elements >= LARGE for each in dense(call))
    ]
    if wide:
        why = f"{plural(len(wide), 'op')} of the step compute in float64"
        order = "compute in float32 (model.float(), x.float())"
        yield step.proposal(order, why, wide, ON_CPU, "results have 7 digits, not 16")


@fix("Float32 instead of float64", "gpu shapes", on_cpu=_on_cpu)
def _find(step: Step) -> Proposals:
    rows = step.rows_where(is_double)
    if not len(rows):
        return

    def price(case: Case, speed: Speed) -> float:
        now = case.median_ns or 0.0
        if case.role not in MATMULS:
            return max(now / 2, 2_000)  # a shorter kernel does not become shorter
        kind, matrix = ("tf32", True) if speed is BEST else ("fp32", False)
        count = (case.bytes or 0) / 2
        return step.matmul_ns(speed, case.flops, count, kind, matrix) if case.flops else now / 2

    why = f"{plural(len(rows), 'kernel')} per step on float64 tensors"
    order = "make the tensors float32 (x.float(), dtype=torch.float32)"
    risk = "float32 has 24 bits of precision: compare the result"
    events = step.events(rows)
    yield Proposal(order, why, *step.repriced(rows, price), risk=risk, events=events)


def is_double(case: Case) -> bool:
    """Whether an operand with dimensions is float64."""
    tensors = case.call.every_tensor() if case.call else ()
    return any(each.type == DOUBLE and each.dims for each in tensors)
