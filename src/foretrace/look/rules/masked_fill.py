"""`masked_fill` that copies its input first.

What it shows: calls of `masked_fill`, each of which copies the whole input and then fills the copy.

Why it matters: the tensor is read and written twice. With a mask that is broadcast, the second
kernel is also not vectorized. Measured on an H200 (torch 2.11, bf16, [64, 12, 512, 512]): `mul` of
two such tensors 277 us, `masked_fill` with a mask of the same shape 426 us, with a mask of [512,
512] 774 us (2.8 times as long as `mul`), `torch.where` with the latter 494 us, `masked_fill_` in
place 235 us, `masked_fill` in one compiled kernel 234 us.

How it is computed: the GPU operations launched below `aten::masked_fill`. One pass reads the input
and the mask and writes the result; the saving is at most the measured time, less the time of that
pass at the card's full bandwidth.

When it is wrong: `masked_fill_` changes its input; a program that needs the old values, as the
backward pass may, cannot use it.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import time_text, times_text
from foretrace.look.rules._seen import Found, Seen, bandwidth_ns, rule
from foretrace.work.costs import Tensor


@rule(
    "masked_fill that copies its input first",
    "gpu ops",
    realised=0.5,
    example="attention_naive_8x16x1024x64_bf16",
)
def _check(seen: Seen) -> Found:
    gpu, origins = seen.gpu, seen.trace.origins
    ops = seen.within(origins.op, lambda name: name == "aten::masked_fill")
    calls = origins.calls(ops)
    rows = np.flatnonzero((calls >= 0) & seen.counted & gpu.usable)
    rows = rows[np.bincount(calls[rows])[calls[rows]] > 1]
    if not len(rows):
        return
    _, first, call = np.unique(calls[rows], return_index=True, return_inverse=True)
    time = np.bincount(call.reshape(-1), weights=gpu.length[rows])
    operands = [_operands(seen, each) for each in ops[rows[first]].tolist()]
    # one pass reads the input and the mask, and writes the result
    passes = [2 * (pair[0].bytes or 0) + (pair[1].bytes or 0) for pair in operands if pair]
    least = sum(bandwidth_ns(seen.device, size) for size in passes)
    ns, count = seen.ns(rows), seen.each(len(first))
    saved = seen.step(max(int(gpu.length[rows].sum()) - least, 0.0))
    slowest = operands[int(time.argmax())]
    title = f"masked_fill copies its input {times_text(count)} {seen.per}"
    shape, mask = [list(each.dims) for each in slowest] if slowest else (None, None)
    filled = f"The slowest fills {slowest[0].text} by a mask {mask}. " if slowest else ""
    detail = (
        f"{filled}{time_text(ns)} {seen.per} for the copy and the fill. One pass "
        f"over the tensor would save at most {time_text(saved)}."
    )
    evidence = {"calls": count, "ns": ns, "shape": shape, "mask": mask}
    broadcast = slowest is not None and slowest[1].elements < slowest[0].elements
    fix = "use torch.where" if broadcast else "fill in place (masked_fill_)"
    yield seen.found(title, detail, evidence, gpu.id[rows], saved, fix)


def _operands(seen: Seen, call: int) -> tuple[Tensor, Tensor] | None:
    values, mask = seen.call(call).tensor(0), seen.call(call).tensor(1)
    return (values, mask) if values and mask else None
