"""An activation that the matmul before it could apply.

What it shows: ReLU and tanh GELU kernels directly after a matmul with a bias, of the same result.

Why it matters: the kernel reads and writes the whole result again. cuBLASLt applies both functions
in the matmul's epilogue, before the result leaves the chip. Measured on an H200 (torch 2.11, bf16,
six sizes from 1024 x 1024 x 1024 to 8192 x 4096 x 16384): with ReLU in the epilogue the matmul
takes 0.98 to 1.02 of its time alone, with GELU 1.02 to 1.12. The kernel of its own adds 9 to 50%.

How it is computed: an `addmm` with a bias vector, and as the next launch on the stream `relu`, or
`gelu` with the tanh approximation (by the kernel's name), on as many bytes as the matmul writes.
The saving is at most the time of the activation's kernel. `torch._addmm_activation` is the op;
`torch.compile` does it with `mode="max-autotune"` if its own matmuls win the measurement.

When it is wrong: a training step needs the values before GELU. A trace with a backward pass is
passed over, and so are cards that cuBLASLt does not run on. The trace shows sizes and order, not
that it is the same tensor. GELU without the approximation has no epilogue.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.arrays import counted
from foretrace.base.units import plural, time_text
from foretrace.look.rules._seen import BACKWARD, LISTED, Found, Seen, listing, rule, shapes_text
from foretrace.trace.kernels import Case

# ATen's kernel tries the tanh form first: the first lambda of this function is it, the second the
# error function.
TANH = "GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}"
RELU = frozenset({"aten::relu", "aten::relu_", "aten::clamp_min", "aten::clamp_min_"})


@rule("An activation that the matmul could apply", "gpu shapes", realised=0.5)
def _check(seen: Seen) -> Found:
    backward = any(name.startswith(BACKWARD) for name in seen.host.names)
    if backward or not (seen.trace.about.arch or "").startswith("sm"):
        return
    rows = seen.following(1, _follows)
    if not len(rows):
        return
    numbers, counts = counted(seen.order.case[rows])
    ns, count = seen.step(int(seen.order.length[rows].sum())), seen.each(len(rows))
    kinds = [seen.cases[number] for number in numbers]
    words = listing(sorted(set(map(_activation, kinds))))
    title = f"{words} after {plural(count, 'matmul')} {seen.per} could be in the epilogue"
    detail = (
        f"The activation reads and writes the matmul's result again: {time_text(ns)} "
        f"{seen.per}. The trace shows sizes and order, not that it is the same tensor."
    )
    kernels = [
        {"activation": _activation(case), "shapes": shapes_text(case.call), "count": seen.each(of)}
        for case, of in zip(kinds, counts.tolist(), strict=True)
    ][:LISTED]
    evidence = {"activations": count, "ns": ns, "kernels": kernels}
    fix = "apply the activation in the matmul (torch._addmm_activation)"
    events = seen.order.events_of(np.union1d(rows, rows - 1))
    yield seen.found(title, detail, evidence, events, ns, fix)


def _follows(left: Case, right: Case) -> bool:
    """Whether the second applies an activation to a tensor of the size of the first's result."""
    bias = left.call.tensor(0) if left.call and left.op == "aten::addmm" else None
    vector = left.role == "gemm" and bias is not None and len(bias.dims) == 1
    result = right.call.tensor(0) if right.call else None
    sized = result is not None and left.bytes_written and result.bytes == left.bytes_written
    return bool(vector and sized and _activation(right))


def _activation(case: Case) -> str:
    """`ReLU` or `GELU`, where the kernel does nothing else; "" otherwise."""
    if case.role != "pointwise":
        return ""
    if case.id.family == "inductor_triton":
        return "ReLU" if list(case.id.get("ops") or ()) == ["relu"] else ""
    if case.op == "aten::gelu":
        return "GELU" if TANH in case.name else ""
    zero = case.op in ("aten::relu", "aten::relu_") or (case.call and case.call.text(1) == "0")
    return "ReLU" if case.op in RELU and zero else ""
