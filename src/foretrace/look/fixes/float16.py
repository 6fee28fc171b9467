"""Float16 on a card whose tensor cores take nothing else.

What it looks for: float32 matmuls or convolutions whose kernels run without tensor cores.

What must hold: the card has a float16 peak, and neither TF32 nor bf16: a V100.

What changes: 55% of the time of these kernels remains, at best what the peaks allow, at worst 90%:
conversions, changes of layout and small sizes take the rest. It needs no shapes.
"""

from __future__ import annotations

from functools import partial

from foretrace.base.units import plural
from foretrace.look.fixes._changes import of_each
from foretrace.look.fixes._step import Proposal, Proposals, Step, fix
from foretrace.look.rules.float32_matmuls import SETTINGS, is_plain

USUAL, WORST = 0.55, 0.9
RISK = "float16 overflows above 65,504: compare the loss curve"


@fix("Float16 on tensor cores", "gpu")
def _find(step: Step) -> Proposals:
    peaks = step.device.peak_flops if step.device else {}
    half, single = peaks.get("fp16"), peaks.get("fp32")
    rows = step.rows_where(lambda case: case.role in SETTINGS and is_plain(case))
    if peaks.keys() & {"tf32", "bf16"} or not half or not single or not len(rows):
        return
    matmuls = plural(len(rows), "matmul or convolution", "matmuls and convolutions")
    why = f"{matmuls} per step in float32, without tensor cores"
    order = 'use torch.autocast("cuda", torch.float16) with GradScaler'
    order = order if step.trains else "run the model in float16 (model.half())"
    changes = of_each(partial(step.shorter, rows.tolist()), (USUAL, single / half, WORST))
    yield Proposal(order, why, *changes, risk=RISK, events=step.events(rows))
