"""Keep the optimizer's state in 8 bits.

What it shows: the peak when each value of the optimizer's state takes a quarter of its bytes.

How it is computed: optimizer state of at least 16 kB counts a quarter; smaller tensors stay, as
libraries leave them in float32.

When it is wrong: state that is not float32 shrinks less. The figure is arithmetic: no recording of
ours has such an optimizer. Where several GPUs train one model, sharding the state (ZeRO, FSDP)
divides it by their number instead, and changes no value.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import NUMBERS, MemoryFix, MemoryProposal, changed
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import STATE
from foretrace.model.allocator.view import MemoryView

LEAST_BYTES = 16_384  # 4,096 values of float32: what bitsandbytes leaves as it is


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    rows = np.flatnonzero((view.category == STATE) & (view.lives.size >= LEAST_BYTES))
    held = np.intersect1d(rows, view.holders)
    if not len(held):
        return
    lives = changed(view)
    lives.size[rows] //= 4
    yield MemoryProposal(
        "keep the optimizer's state in 8 bits, or shard it over several GPUs",
        f"optimizer state is {bytes_text(int(view.lives.size[held].sum()))} at the peak",
        "bitsandbytes.optim.AdamW8bit(params), or FSDP",
        lives,
        held,
        "8 bits change the updates: compare the loss",
    )


MEMORY_FIX = MemoryFix("eight_bit_state", "8-bit optimizer state", _find, NUMBERS)
