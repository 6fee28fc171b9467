"""Float32 instead of float64.

What it looks for: kernels on float64 tensors: NumPy's arrays and Python's numbers make them
unasked.

What must hold: an operand with dimensions is float64. Scalars beside tensors do not count.

What changes: a kernel that moves memory takes half of its time, a matmul or convolution that of
float32 without TF32 (at best, with it).
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import BEST, Speed, matmul_ns, repriced, rows_where
from foretrace.analyze.fixes._step import Step
from foretrace.base.units import plural
from foretrace.model.order import Case

MATMULS = frozenset({"gemm", "gemv", "conv", "attention"})
DOUBLE = "double"
LEAST_NS = 2_000  # a shorter kernel does not become shorter


def _find(step: Step) -> Iterator[Proposal]:
    rows = rows_where(step, is_double)
    if not len(rows):
        return
    changes = repriced(step, rows.tolist(), lambda case, speed: _ns(step, case, speed))
    why = f"{plural(len(rows), 'kernel')} per step on float64 tensors"
    order = "make the tensors float32 (x.float(), dtype=torch.float32)"
    risk = "float32 has 24 bits of precision: compare the result"
    yield Proposal(order, why, *changes, risk=risk, events=step.events(rows))


def is_double(case: Case) -> bool:
    """Whether an operand with dimensions is float64."""
    tensors = case.call.every_tensor() if case.call else ()
    return any(each.type == DOUBLE and each.dims for each in tensors)


def _ns(step: Step, case: Case, speed: Speed) -> float | None:
    now = case.median_ns or 0.0
    if case.role in MATMULS:
        kind, matrix = ("tf32", True) if speed is BEST else ("fp32", False)
        count = (case.bytes or 0) / 2
        return matmul_ns(step, speed, case.flops, count, kind, matrix) if case.flops else now / 2
    return max(now / 2, LEAST_NS)


FIX = Fix("float64", "Float32 instead of float64", _find, ("gpu", "shapes"))
