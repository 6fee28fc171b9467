"""Fixes that compute in a type, or with sizes, that the card multiplies faster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from foretrace.base.units import plural
from foretrace.look.fixes._step import (
    BEST,
    SPEEDS,
    STARTING_NS,
    WORST,
    Changes,
    CpuStep,
    Proposal,
    Proposals,
    Speed,
    Step,
    dense,
    fix,
    joined,
    of_each,
)
from foretrace.look.fixes.attention import attention_change, wide_attention
from foretrace.look.rules import LAYOUT
from foretrace.look.rules.matmuls import TF32_SETTINGS, is_plain, is_tf32, misaligned, odd_sizes
from foretrace.trace.intervals import Ints
from foretrace.trace.replay import GraphChange
from foretrace.work.costs import peak_flops
from foretrace.work.kernel_row import KernelRow

HEAVY_ROLES = frozenset({"gemm", "gemv", "conv", "attention"})
DOUBLE = "double"
LARGE_TENSOR = 1_024  # elements of a tensor that a CPU works on for long
DOUBLE_ON_CPU = (0.5, 0.65, 0.3)  # of the time goes; 0.58 on a core with vectors of 512 bits


def _double_on_cpu(step: CpuStep) -> Proposals:
    wide = [
        event
        for event, call in step.arguments.items()
        if any(each.type == DOUBLE and each.elements >= LARGE_TENSOR for each in dense(call))
    ]
    if wide:
        why = f"{plural(len(wide), 'op')} of the step compute in float64"
        order = "compute in float32 (model.float(), x.float())"
        yield step.proposal(order, why, wide, DOUBLE_ON_CPU, "results have 7 digits, not 16")


@fix("Float32 instead of float64", "gpu shapes", on_cpu=_double_on_cpu)
def float64(step: Step) -> Proposals:
    """Float32 instead of float64.

    What it looks for: kernels on float64 tensors: NumPy's arrays and Python's numbers make them
    unasked.

    What must hold: an operand with dimensions is float64. Scalars beside tensors do not count.

    What changes: a kernel that moves memory takes half of its time, a matmul or convolution that of
    float32 without TF32 (at best, with it). On a CPU an op takes half of its time.
    """
    rows = step.rows_where(is_double)
    if not len(rows):
        return

    def price(case: KernelRow, speed: Speed) -> float:
        now = case.median_ns or 0.0
        if case.role not in HEAVY_ROLES:
            return max(now / 2, 2_000)  # a shorter kernel does not become shorter
        kind, matrix = ("tf32", True) if speed is BEST else ("fp32", False)
        count = (case.bytes or 0) / 2
        return step.matmul_ns(speed, case.flops, count, kind, matrix) if case.flops else now / 2

    why = f"{plural(len(rows), 'kernel')} per step on float64 tensors"
    order = "make the tensors float32 (x.float(), dtype=torch.float32)"
    risk = "float32 has 24 bits of precision: compare the result"
    events = step.events(rows)
    yield Proposal(order, why, *step.repriced(rows, price), risk=risk, events=events)


def is_double(case: KernelRow) -> bool:
    """Whether an operand with dimensions is float64."""
    tensors = case.call.every_tensor() if case.call else ()
    return any(each.type == DOUBLE and each.dims for each in tensors)


USUAL_SHARE, WORST_SHARE = 0.55, 0.9
FLOAT16_RISK = "float16 overflows above 65,504: compare the loss curve"


@fix("Float16 on tensor cores", "gpu")
def float16(step: Step) -> Proposals:
    """Float16 on a card whose tensor cores take nothing else.

    What it looks for: float32 matmuls or convolutions whose kernels run without tensor cores.

    What must hold: the card has a float16 peak, and neither TF32 nor bf16: a V100.

    What changes: 55% of the time of these kernels remains, at best what the peaks allow, at worst
    90%: conversions, changes of layout and small sizes take the rest. It needs no shapes.
    """
    peaks = step.device.peak_flops if step.device else {}
    half, single = peaks.get("fp16"), peaks.get("fp32")
    rows = step.rows_where(lambda case: case.role in TF32_SETTINGS and is_plain(case))
    if peaks.keys() & {"tf32", "bf16"} or not half or not single or not len(rows):
        return
    matmuls = plural(len(rows), "matmul or convolution", "matmuls and convolutions")
    why = f"{matmuls} per step in float32, without tensor cores"
    order = 'use torch.autocast("cuda", torch.float16) with GradScaler'
    order = order if step.trains else "run the model in float16 (model.half())"
    changes = of_each(
        partial(step.shorter, rows.tolist()), (USUAL_SHARE, single / half, WORST_SHARE)
    )
    yield Proposal(order, why, *changes, risk=FLOAT16_RISK, events=step.events(rows))


TF32_ORDERS = {
    "gemm": ('call torch.set_float32_matmul_precision("high")', "matmul"),
    "conv": ("set torch.backends.cudnn.allow_tf32 = True", "convolution"),
}
TF32_RISK = "TF32 rounds the factors to 10 bits: compare the loss or the output"


@fix("TF32 for float32 matmuls and convolutions", "gpu shapes")
def tf32(step: Step) -> Proposals:
    """TF32 for float32 matmuls and convolutions.

    What it looks for: float32 matmuls or convolutions whose kernels run without tensor cores.

    What must hold: the card has a TF32 peak, and no other kernel of that kind (matmul, convolution)
    uses TF32: then it is not allowed, and not a choice of the library.

    What changes: each of these kernels takes the time of its arithmetic at the share of the TF32
    peak that such kernels reach. A convolution in NCHW has changes of layout around it then.
    """
    if not peak_flops(step.device, "tf32", True):
        return

    def price(case: KernelRow, speed: Speed) -> float | None:
        flops, count = case.flops, case.bytes or 0
        if not flops:
            return None
        ns = step.matmul_ns(speed, flops, count, "tf32")
        if case.role == "conv":  # in NCHW cuDNN changes the layout of inputs and result around it
            work = STARTING_NS + step.arithmetic_ns(speed.conv, flops, "tf32")
            ns = work + step.memory_ns(speed, 2 * count)
        return max(ns, 6_000)  # of a small kernel on tensor cores

    def of(role: str, test: Callable[[KernelRow], bool]) -> Ints:
        return step.rows_where(lambda case: case.role == role and test(case))

    for role, (order, what) in TF32_ORDERS.items():
        rows = of(role, is_plain)
        if len(rows) and not len(of(role, is_tf32)):
            why = f"{plural(len(rows), f'float32 {what}')} per step without tensor cores"
            changes = step.repriced(rows, price)
            yield Proposal(order, why, *changes, risk=TF32_RISK, events=step.events(rows))


MATMUL_ROLES = frozenset({"gemm", "conv"})
MOVING_ROLES = frozenset({"pointwise", "normalization", "softmax", "reduction", "copy"})
# What autocast leaves of the host time of a matmul: it converts two or three tensors.
NARROWING = (1.6, 1.3, 2.0)
LEAST_SHARE = 0.5  # of the time of all matmuls
BF16_RISK = "bf16 has 8 bits of precision: compare the loss curve"


@fix("Matmuls in bf16", "gpu shapes")
def autocast(step: Step) -> Proposals:
    """Matmuls in bf16 instead of float32 or TF32.

    What it looks for: float32 matmuls and convolutions on the tensor cores (TF32). bf16 has twice
    the rate, and half of the bytes.

    What must hold: the card has a bf16 peak above that of TF32, and TF32 has at least half of the
    time of all matmuls. Where float32 runs without TF32, that is the smaller change (`tf32`), and
    this is not proposed.

    What changes: each float32 matmul, convolution and attention takes the time that it has in bf16.
    In a training step, autocast converts inputs and weights around each matmul: their forward ops
    and backward nodes take longer on the host, and the conversions take on the GPU what the 16-bit
    activations save between the matmuls (measured on a transformer: the same within 4%). Without a
    backward pass, the model itself can be bf16: nothing is converted, and the kernels between the
    matmuls move half of the bytes.
    """

    def works(case: KernelRow) -> bool:
        return case.role in MATMUL_ROLES and bool(case.flops)

    every = step.rows_where(works)
    rows = step.rows_where(lambda case: works(case) and is_tf32(case))
    narrow, tf32 = (peak_flops(step.device, kind, True) for kind in ("bf16", "tf32"))
    faster = narrow and tf32 and narrow > 1.2 * tf32  # of the bf16 peak over that of TF32
    if not len(rows) or step.ns(rows) < LEAST_SHARE * step.ns(every) or not faster:
        return
    order = 'use torch.autocast("cuda", torch.bfloat16) for the forward'
    why = f"{len(rows)} of {plural(len(every), 'matmul')} per step in float32 (TF32), not in bf16"
    text = order if step.trains else "run the model in bf16 (model.bfloat16())"
    yield Proposal(text, why, *_bf16_changes(step, rows), risk=BF16_RISK, events=step.events(rows))


def _bf16_changes(step: Step, rows: Ints) -> Changes:
    """Matmuls, changes of layout and attention in bf16, and what that costs the host."""
    layout = step.rows_where(lambda case: case.id.get("op") == LAYOUT)

    def price(case: KernelRow, speed: Speed) -> float:
        if case.role == "conv":
            return STARTING_NS + step.arithmetic_ns(speed.conv, case.flops or 0)
        return step.matmul_ns(speed, case.flops or 0, (case.bytes or 0) / 2)

    matmuls = step.repriced(rows, price)
    attention = attention_change(step, wide_attention(step))
    owners = step.owners(rows).tolist() if step.trains else []
    host, halved = GraphChange(step.stretches(owners)), step.shorter(layout, 0.5)

    between = GraphChange() if step.trains else _narrow(step)
    usual, best, worst = (
        joined([GraphChange() if speed is WORST else between, mine, halved, attend, host], left)
        for speed, mine, attend, left in zip(SPEEDS, matmuls, attention, NARROWING, strict=True)
    )
    return usual, best, worst


def _narrow(step: Step) -> GraphChange:
    """Half of the time for what moves float32 between the matmuls."""

    def moves(case: KernelRow) -> bool:
        wide = case.call is not None and case.call.operand_type == "float"
        return wide and case.role in MOVING_ROLES and (case.median_ns or 0) > STARTING_NS

    length = step.trace.gpu.length
    rows = step.rows_where(moves).tolist()
    return GraphChange(length={row: max(length[row] / 2, STARTING_NS) for row in rows})


ALIGNED_KINDS = {"f16": "fp16", "bf16": "bf16", "f32": "tf32", "tf32": "tf32", "i8": "int8"}
WIDE, NARROW = 64, 8  # what a size is padded to: 64 is safe where it adds little


@fix("Sizes that are multiples of 8", "gpu shapes")
def aligned_sizes(step: Step) -> Proposals:
    """Sizes of matmuls that are multiples of 8.

    What it looks for: matmuls on tensor cores whose kernel loads 1, 2 or 4 elements at a time, and
    the odd size that causes it: a vocabulary of 50257, a width of 1021.

    What must hold: the name of the kernel states its alignment, and the shapes have a size along
    memory that is no multiple of 16 bytes (the detection of the rule `misaligned_matmuls`).

    What changes: the matmuls take the time of their arithmetic at the usual share of the card's
    peak, or of their bytes. All other work stays as it is; a padded vocabulary has a little more of
    it.
    """
    rows = step.rows_where(lambda case: misaligned(case) and bool(odd_sizes(case)))
    spent: dict[int, float] = {}
    for row in rows.tolist():
        case = step.case(row)
        for size in odd_sizes(case).values() if case else ():
            spent[size] = spent.get(size, 0.0) + step.ns([row])
    if not spent:
        return
    size = max(spent, key=lambda size: (spent[size], size))
    unit = WIDE if -size % WIDE < 0.05 * size else NARROW
    order = f"pad {size} to {-(-size // unit) * unit}, a multiple of {unit}"
    why = f"{plural(len(rows), 'matmul')} per step with narrow loads: {size} is not a multiple of 8"

    def price(case: KernelRow, speed: Speed) -> float | None:
        kind = ALIGNED_KINDS.get(str(case.id.get("dtype_in")))
        if not case.flops or not kind:
            return None
        return step.matmul_ns(speed, case.flops, case.bytes or 0, kind)

    yield Proposal(order, why, *step.repriced(rows, price), events=step.events(rows))
