"""TF32 for float32 matmuls and convolutions.

What it looks for: float32 matmuls or convolutions whose kernels run without tensor cores.

What must hold: the card has a TF32 peak, and no other kernel of that kind (matmul, convolution)
uses TF32: then it is not allowed, and not a choice of the library.

What changes: each of these kernels takes the time of its arithmetic at the share of the TF32 peak
that such kernels reach. A convolution in NCHW has changes of layout around it then.
"""

from __future__ import annotations

from collections.abc import Callable

from foretrace.base.units import plural
from foretrace.look.fixes._changes import STARTING_NS, Speed
from foretrace.look.fixes._step import Case, Ints, Proposal, Proposals, Step, fix
from foretrace.look.rules.float32_matmuls import is_plain, is_tf32
from foretrace.work.costs import peak_flops

ORDERS = {
    "gemm": ('call torch.set_float32_matmul_precision("high")', "matmul"),
    "conv": ("set torch.backends.cudnn.allow_tf32 = True", "convolution"),
}
RISK = "TF32 rounds the factors to 10 bits: compare the loss or the output"


@fix("TF32 for float32 matmuls and convolutions", "gpu shapes")
def _find(step: Step) -> Proposals:
    if not peak_flops(step.device, "tf32", True):
        return

    def price(case: Case, speed: Speed) -> float | None:
        flops, count = case.flops, case.bytes or 0
        if not flops:
            return None
        ns = step.matmul_ns(speed, flops, count, "tf32")
        if case.role == "conv":  # in NCHW cuDNN changes the layout of inputs and result around it
            work = STARTING_NS + step.arithmetic_ns(speed.conv, flops, "tf32")
            ns = work + step.memory_ns(speed, 2 * count)
        return max(ns, 6_000)  # of a small kernel on tensor cores

    def of(role: str, test: Callable[[Case], bool]) -> Ints:
        return step.rows_where(lambda case: case.role == role and test(case))

    for role, (order, what) in ORDERS.items():
        rows = of(role, is_plain)
        if len(rows) and not len(of(role, is_tf32)):
            why = f"{plural(len(rows), f'float32 {what}')} per step without tensor cores"
            changes = step.repriced(rows, price)
            yield Proposal(order, why, *changes, risk=RISK, events=step.events(rows))
