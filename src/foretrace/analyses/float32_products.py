"""Float32 matrix products that leave the tensor cores idle.

What it shows: matrix products and convolutions in float32 whose kernels run on the plain cores.

Why it matters: on an A100 the tensor cores multiply float32 (as TF32) eight times as fast, on an
H100 seven times. `torch.set_float32_matmul_precision("high")` allows it for products, with 10 bits
of mantissa. bf16 is twice as fast again.

How it is computed: kernels whose name states float32 operands and no tensor-core instruction. The
saving is at most their time, less the time of the arithmetic at the card's TF32 peak. Without
shapes or such a peak there is no figure.

When it is wrong: float32 may be intended, since TF32 rounds the operands. Memory-bound products
gain little.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from foretrace.analyses._common import LISTED, each, faster_by, per, shapes_text, together
from foretrace.model.about import device_of
from foretrace.schema.finding import Finding, Rule
from foretrace.units import percent_text, plural, time_text

if TYPE_CHECKING:
    from foretrace.model.order import Case
    from foretrace.model.trace import Trace


def _check(trace: Trace) -> Iterator[Finding]:
    whole = together(trace, [case for case in trace.order.cases if _plain(case)])
    if whole is None:
        return
    device = device_of(trace.about)
    faster = device is None or "tf32" in device.peak_flops
    advice = "This card's tensor cores take 16-bit types only"
    if faster:
        advice = "TF32 (torch.set_float32_matmul_precision) or bf16 would use the tensor cores"
    title = f"{plural(whole.count, 'float32 product')} {per(trace)} without tensor cores"
    detail = (
        f"Total: {time_text(whole.ns)} {per(trace)}, {percent_text(whole.share)} of "
        f"kernel time. {advice}."
    )
    kernels = [_entry(trace, case) for case in whole.cases[:LISTED]]
    evidence = {"count": whole.count, "ns": whole.ns, "share": whole.share, "kernels": kernels}
    saved = faster_by(trace, whole.cases, "tf32") if faster else None
    yield Finding(RULE.name, "found", title, detail, evidence, whole.events, saved)


def _plain(case: Case) -> bool:
    return (
        case.role in ("gemm", "conv")
        and case.id.get("tensor_core") is False
        and case.id.get("dtype_in") == "f32"
    )


def _entry(trace: Trace, case: Case) -> dict[str, Any]:
    return {
        "kernel": case.id.short,
        "name": case.name,
        "op": case.op,
        "shapes": shapes_text(case.call),
        "count": each(trace, case.count),
        "ns": trace.order.per_step(case.ns),
        "tflops": case.tflops,
    }


RULE = Rule(
    name="float32_products",
    title="Float32 matrix products that leave the tensor cores idle",
    check=_check,
    needs=frozenset({"gpu"}),
)
