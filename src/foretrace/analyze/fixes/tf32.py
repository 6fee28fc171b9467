"""TF32 for float32 matmuls and convolutions.

What it looks for: float32 matmuls or convolutions whose kernels run without tensor cores.

What must hold: the card has a TF32 peak, and no other kernel of that kind (matmul, convolution)
uses TF32: then it is not allowed, and not a choice of the library.

What changes: each of these kernels takes the time of its arithmetic at the share of the TF32 peak
that such kernels reach. A convolution in NCHW has changes of layout around it then.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretrace.analyze.fixes import Fix, Proposal
from foretrace.analyze.fixes._gpu import (
    Speed,
    conv_ns,
    matmul_ns,
    repriced,
    rows_where,
)
from foretrace.analyze.fixes._step import Step
from foretrace.analyze.rules.float32_matmuls import is_plain, is_tf32
from foretrace.base.units import plural
from foretrace.model.costs import peak_flops
from foretrace.model.order import Case

ORDERS = {
    "gemm": ('call torch.set_float32_matmul_precision("high")', "matmul"),
    "conv": ("set torch.backends.cudnn.allow_tf32 = True", "convolution"),
}
LEAST_NS = 6_000  # of a small kernel on tensor cores
RISK = "TF32 rounds the factors to 10 bits: compare the loss or the output"


def _find(step: Step) -> Iterator[Proposal]:
    if not peak_flops(step.device, "tf32", True):
        return
    for role in ORDERS:
        yield from _of(step, role)


def _of(step: Step, role: str) -> Iterator[Proposal]:
    """Kernels of one kind."""
    rows = rows_where(step, lambda case: case.role == role and is_plain(case))
    allowed = rows_where(step, lambda case: case.role == role and is_tf32(case))
    if not len(rows) or len(allowed):
        return
    order, what = ORDERS[role]
    why = f"{plural(len(rows), f'float32 {what}')} per step without tensor cores"
    changes = repriced(step, rows.tolist(), lambda case, speed: _ns(step, case, speed))
    yield Proposal(order, why, *changes, risk=RISK, events=step.events(rows))


def _ns(step: Step, case: Case, speed: Speed) -> float | None:
    if not case.flops:
        return None
    price = conv_ns if case.role == "conv" else matmul_ns
    return max(price(step, speed, case.flops, case.bytes or 0, "tf32"), LEAST_NS)


FIX = Fix("tf32", "TF32 for float32 matmuls and convolutions", _find, ("gpu", "shapes"))
