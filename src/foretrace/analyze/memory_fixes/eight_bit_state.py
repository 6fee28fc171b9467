"""Keep the optimizer's state in 8 bits.

What it shows: the peak when each value of the optimizer's state takes a quarter of its bytes.

How it is computed: optimizer state of at least 16 kB counts a quarter; smaller tensors stay, as
libraries leave them in float32.

When it is wrong: state that is not float32 shrinks less. The figure is arithmetic: no recording of
ours has such an optimizer. Where several GPUs train one model, sharding the state (ZeRO, FSDP)
divides it by their number instead, and changes no value.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import NUMBERS, Found, PeakPlan, memory_fix
from foretrace.model.allocator.categories import STATE

LEAST_BYTES = 16_384  # 4,096 values of float32: what bitsandbytes leaves as it is


@memory_fix("8-bit optimizer state", NUMBERS)
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    rows = np.flatnonzero((view.category == STATE) & (view.lives.size >= LEAST_BYTES))
    held, size = plan.at_peak(rows)
    if not len(held):
        return
    plan.new.size[rows] //= 4
    yield plan.proposal(
        "keep the optimizer's state in 8 bits, or shard it over several GPUs",
        f"optimizer state is {size} at the peak",
        "bitsandbytes.optim.AdamW8bit(params), or FSDP",
        held,
        "8 bits change the updates: compare the loss",
    )
